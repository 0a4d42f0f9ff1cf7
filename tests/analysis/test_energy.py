"""Energy: the area under the power curve inside the window, and what of it is prefill."""

import pandas as pd
import pytest

from analysis.money.cost import POWER, joules, prefill_and_decode


def samples(*rows: tuple[float, str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["at", "name", "value"])


STEADY = samples(
    *((float(at), POWER, 400.0) for at in range(11)), (5.0, "num_requests_running", 8.0)
)


def test_a_steady_power_is_watts_times_seconds() -> None:
    assert joules(STEADY, (2.0, 8.0)) == pytest.approx(2400)


def test_a_ramp_is_cut_at_the_window_and_gpus_add_up() -> None:
    ramp = samples(
        *((float(at), f'draftboard:{POWER}{{gpu="{gpu}"}}', 100.0 * at)
          for at in range(5) for gpu in (0, 1))
    )  # fmt: skip
    # Two GPUs of 100·t W each, from 0.5 s to 3.5 s: 200 · (3.5² - 0.5²) / 2.
    assert joules(ramp, (0.5, 3.5)) == pytest.approx(1200)


@pytest.mark.parametrize(
    ("rows", "window"),
    [
        (samples(), (0.0, 5.0)),
        (samples((0.0, POWER, 300.0)), (0.0, 5.0)),
        (STEADY, (2.0, 30.0)),
        (STEADY, (-9.0, 5.0)),
        (STEADY, (5.0, 5.0)),
        (STEADY.assign(value=0.0), (2.0, 8.0)),
        (samples((0.0, "num_requests_running", 8.0), (9.0, "num_requests_running", 8.0)),
         (2.0, 5.0)),
    ],
)  # fmt: skip
def test_half_a_curve_is_no_energy(rows: pd.DataFrame, window: tuple[float, float]) -> None:
    assert joules(rows.astype({"name": "str"}), window) is None


def test_two_lengths_of_prompts_tell_prefill_from_decode() -> None:
    # 0.02 J a prompt token and 0.5 J a step, short prompts and long ones.
    used = [
        (prompt, steps, 0.02 * prompt + 0.5 * steps) for prompt, steps in ((1e4, 1e4), (9e4, 2e4))
    ]
    assert prefill_and_decode(used) == pytest.approx((0.02, 0.5))


@pytest.mark.parametrize(
    "used",
    [
        [],
        [(1e4, 1e4, 5e3)],
        [(1e4, 1e4, 5e3), (1.2e4, 1e4, 5.1e3)],
        [(1e4, 1e4, 5e3), (9e4, 1e4, 4e3)],
        [(1e4, 1e4, 5e3), (float("nan"), 1e4, 4e3)],
    ],
    ids=["nothing", "one", "too alike", "prefill below zero", "prompts unknown"],
)
def test_prefill_is_unknown_where_nothing_tells_it_from_decode(
    used: list[tuple[float, float, float]],
) -> None:
    assert prefill_and_decode(used) is None
