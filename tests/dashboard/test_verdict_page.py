"""The Verdict page: the decision in one sentence, honest when the answer is no or unknown."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.views import verdict
from tests.commands.asking import run
from tests.dashboard.opening import opened, refused
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.rows import Cell, Flag, Measurement, Source
from warehouse.store import open_writer

Fill = Callable[..., None]
Make = Callable[..., Facts]
LEVELS = (1, 8, 64)
FACTS = {"model": "lab/tiny-target", "dataset": "code", "evidence": "gpu", "study": "one"}
BASELINE = {"spec_method": "none"}
EAGLE = {"spec_method": "eagle3", "num_speculative_tokens": 3}
#: A launch's own luck at each level, the same for all metrics.
LUCK = ((1.0, 1.004, 0.997), (1.003, 0.998, 1.0), (0.996, 1.001, 1.004))


def said(page: AppTest) -> str:
    texts = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info]
    return "\n".join(text.value for text in texts).replace("\\", "").replace("\u202f", " ")


def headline(page: AppTest) -> str:
    return page.header[0].value.replace("\\", "")


@pytest.fixture
def fill_study(
    empty_place: Path, make_source: Callable[..., Source], make_cell: Callable[..., Cell]
) -> Callable[..., None]:
    """``fill_study(gains, repeats=3, first_token=1.0, **facts)``: a baseline and EAGLE-3 whose
    output throughput gains so much at each of LEVELS, each repeat a server start."""

    def fill(
        gains: tuple[float, ...], repeats: int = 3, first_token: float = 1.0, **facts: Any
    ) -> None:
        source = make_source(f"{gains}{facts}")
        with open_writer(empty_place) as writer:
            writer.add(source, iter(_cells(source, gains, repeats, first_token, facts)))
            writer.commit()

    def _cells(
        source: Source, gains: tuple[float, ...], repeats: int, later: float, facts: dict[str, Any]
    ) -> list[Cell]:
        cells: list[Cell] = []
        for arm, repeat in product((BASELINE, EAGLE), range(repeats)):
            for place, (level, gain) in enumerate(zip(LEVELS, gains, strict=True)):
                luck = LUCK[repeat][place]
                speed, first = (1.0, 1.0) if arm is BASELINE else ((1 + gain) * luck, later * luck)
                known = {
                    **FACTS, "concurrency": level, "repeat": repeat,
                    "launch": f"{arm['spec_method']} {repeat} {facts}", **arm,
                }  # fmt: skip
                known |= facts if arm is EAGLE else facts | {"num_speculative_tokens": None}
                values = _measured(100.0 * level * speed, 50.0 * first)
                cells.append(
                    make_cell(source, len(cells), facts=known, measurements=values, flags=())
                )
        return cells

    return fill


def _measured(rate: float, first: float) -> tuple[Measurement, ...]:
    values = {
        ("output_throughput", "mean"): rate,
        ("total_throughput", "mean"): rate * 3,
        ("ttft", "p95"): first,
        ("request_latency", "p50"): 1000 / rate,
    }
    return tuple(Measurement("canonical", m, s, value) for (m, s), value in values.items())


def test_a_gain_at_every_load_is_a_yes_with_its_interval_and_its_saving(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.25, 0.25, 0.25))

    page = opened("verdict")

    assert headline(page) == (
        "Yes: serve with EAGLE-3 with 3 draft tokens, at every load measured (1, 8 and 64 at once)."
    )
    assert "At 64 at once, eagle3 K=3 gives 25." in said(page)
    assert "An output token costs 20." in said(page)
    assert "nothing that was measured" in said(page)


def test_a_gain_that_ends_is_a_map_of_loads_and_never_a_yes(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.6, 0.4, -0.1))

    page = opened("verdict")

    assert headline(page) == (
        "At some loads: EAGLE-3 (3 draft tokens in batches up to 39, then no drafts) pays at 1 and 8 at "
        "once, loses at 64 at once."
    )
    assert "drafting nothing is expected to be best" in said(page)


def test_a_loss_is_a_no(fill_study: Callable[..., None]) -> None:
    fill_study((-0.2, -0.2, -0.2))

    assert headline(opened("verdict")).startswith("No: do not serve with speculation")


def test_one_launch_decides_nothing_and_says_what_would(fill_study: Callable[..., None]) -> None:
    fill_study((0.5, 0.5, 0.5), repeats=1)

    page = opened("verdict")

    assert headline(page).startswith("Open: ")
    assert "run at least three" in said(page)


def test_several_datasets_are_told_as_a_mix_and_each_by_itself(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.3, 0.3, 0.3), dataset="chat")
    fill_study((-0.3, -0.3, -0.3), dataset="code")

    page = opened("verdict")

    table = page.dataframe[0].value
    assert table["traffic"].tolist() == ["mix of 2", "chat", "code"]
    assert table["answer"].tolist()[1:] == ["yes", "no"]
    assert "50 % chat + 50 % code" in said(page)
    one = opened("verdict", mix="chat=0.9,code=0.1")
    assert "90 % chat + 10 % code" in said(one)


def test_a_later_first_token_speaks_against_it(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), first_token=1.2)

    page = opened("verdict")

    assert "longer time to first token (P95)" in said(page).split("Against it:")[1]


@pytest.mark.parametrize(
    ("evidence", "words", "badge"),
    [
        ("simulated", "Simulated, not measured.", "[simulated]"),
        ("cpu", "this says nothing about the speed of a GPU", "[CPU lab]"),
    ],
)
def test_what_no_gpu_measured_is_said_and_stands_in_every_chart(
    fill_study: Callable[..., None], evidence: str, words: str, badge: str
) -> None:
    fill_study((0.3, 0.3, 0.3), evidence=evidence)

    page = opened("verdict")

    assert words in said(page)
    assert badge in page.selectbox(key="about").options[0]
    (chart,) = page.get("vega_lite_chart")
    assert badge in str(json.loads(chart.proto.spec)["title"])


def test_the_reader_s_load_objective_and_slo_are_asked(fill_study: Callable[..., None]) -> None:
    fill_study((0.6, 0.4, -0.1))

    assert "At 8 at once, eagle3 K=3 gives 4" in said(opened("verdict", at_load="8"))
    page = opened("verdict", objective="Latency")
    assert "request latency (median)" in said(page)
    assert "No arm meets the SLO" in said(opened("verdict", draft_slo="ttft:p95<1ms"))
    assert "is no share of a dataset" in refused("verdict", mix="code")
    assert "A load is a number above 0" in refused("verdict", at_load="many")


def test_arms_compete_and_a_chosen_one_is_judged_alone(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3))
    fill_study((-0.3, -0.3, -0.3), num_speculative_tokens=7)

    assert "EAGLE-3 with 3 draft tokens" in headline(opened("verdict"))
    alone = headline(opened("verdict", Filters(arm=("eagle3 K=7",))))
    assert alone.startswith("No: do not serve with speculation; the best arm, EAGLE-3 with 7")


def test_one_verdict_is_about_one_model_and_hardware(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), gpu="H200")
    fill_study((-0.3, -0.3, -0.3), gpu="B200", evidence="simulated")

    options = opened("verdict").selectbox(key="about").options

    assert sorted(option.split(",")[0] for option in options) == [
        "lab/tiny-target on B200", "lab/tiny-target on H200",
    ]  # fmt: skip


def test_two_sizes_are_told_in_one_paragraph(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), tensor_parallel_size=1)
    fill_study((-0.3, -0.3, -0.3), tensor_parallel_size=2)

    page = opened("verdict")

    assert len(page.selectbox(key="about").options) == 1
    assert "TP 1, code: Yes" in headline(page)
    assert "TP 2, code: No" in headline(page)


def test_what_changed_since_the_last_recorded_decision_is_said(
    fill_study: Callable[..., None], empty_place: Path
) -> None:
    fill_study((0.3, 0.3, 0.3))
    run("verdict", "--warehouse", str(empty_place), "--record")
    assert "Changed" not in said(opened("verdict"))

    fill_study((0.6, 0.5, 0.4), num_speculative_tokens=7)

    assert "eagle3 K=7, was eagle3 K=3" in said(opened("verdict"))


def test_a_cell_that_decides_nothing_is_named(
    empty_place: Path, fill_cells: Fill, make_facts: Make, fill_study: Callable[..., None]
) -> None:
    fill_study((0.3, 0.3, 0.3))
    doubt = Flag("errors", "error", "87 of 100 requests failed.")
    facts = make_facts(**(FACTS | {"concurrency": 1} | EAGLE))
    fill_cells(empty_place, "failed", [facts], flags=(doubt,))

    told = said(opened("verdict"))

    assert ("87 of 100" in told) == ("Decides nothing" in told)


def test_cells_without_a_partner_are_no_verdict_and_say_why(
    empty_place: Path, fill_cells: Fill, make_facts: Make
) -> None:
    fill_cells(empty_place, "alone", [make_facts(**EAGLE)])

    page = opened("verdict")

    assert headline(page).startswith("Not known yet")
    assert "reason" in page.dataframe[0].value.columns


def test_unknown_values_everywhere_are_said_and_not_hidden(
    empty_place: Path, fill_cells: Fill, make_facts: Make
) -> None:
    nothing = dict.fromkeys(
        ("model", "gpu", "gpu_count", "engine", "engine_version", "tensor_parallel_size",
         "dataset", "precision", "evidence", "prompt_set_hash")
    )  # fmt: skip
    for arm in (BASELINE, EAGLE):
        fill_cells(empty_place, str(arm), [make_facts(**(arm | nothing))])

    page = opened("verdict")

    assert page.selectbox(key="about").options == [
        "unknown on unknown, unknown unknown  [evidence unknown]"
    ]
    assert verdict.TITLE == "Verdict"
