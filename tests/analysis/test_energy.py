"""Energy: the area under the power curve inside the window, per token."""

import pandas as pd
import pytest

from analysis.money.cost import POWER, energy


def samples(*rows: tuple[float, str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["at", "name", "value"])


STEADY = samples(
    *((float(at), POWER, 400.0) for at in range(11)), (5.0, "num_requests_running", 8.0)
)


def test_a_steady_power_is_watts_times_seconds() -> None:
    found = energy(STEADY, (2.0, 8.0), output_tokens=1200)

    assert found is not None
    assert found.joules == pytest.approx(2400)
    assert found.mean_watts == pytest.approx(400)
    assert found.joules_per_output_token == pytest.approx(2.0)
    assert found.kwh_per_million_output_tokens == pytest.approx(2e6 / 3.6e6)


def test_a_ramp_is_cut_at_the_window_and_gpus_add_up() -> None:
    ramp = samples(
        *((float(at), f'draftboard:{POWER}{{gpu="{gpu}"}}', 100.0 * at)
          for at in range(5) for gpu in (0, 1))
    )  # fmt: skip
    # Two GPUs of 100·t W each, from 0.5 s to 3.5 s: 200 · (3.5² - 0.5²) / 2.
    found = energy(ramp, (0.5, 3.5), output_tokens=100)

    assert found is not None
    assert found.joules == pytest.approx(1200)


@pytest.mark.parametrize(
    ("rows", "window", "tokens"),
    [
        (samples(), (0.0, 5.0), 10),
        (samples((0.0, POWER, 300.0)), (0.0, 5.0), 10),
        (STEADY, (2.0, 30.0), 10),
        (STEADY, (-9.0, 5.0), 10),
        (STEADY, (5.0, 5.0), 10),
        (STEADY, (2.0, 8.0), 0),
        (samples((0.0, "num_requests_running", 8.0), (9.0, "num_requests_running", 8.0)),
         (2.0, 5.0), 10),
    ],
)  # fmt: skip
def test_half_a_curve_is_no_energy(
    rows: pd.DataFrame, window: tuple[float, float], tokens: float
) -> None:
    assert energy(rows.astype({"name": "str"}), window, tokens) is None
