"""The Verdict page: one sentence, honest when the answer is no or unknown."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from analysis.significance.comparison import METRICS_READ, STATISTICS_READ, compare
from analysis.significance.confidence import intervals
from analysis.verdicts.decision import decisions
from analysis.verdicts.overall import overalls
from dashboard import data
from dashboard import phrases_verdict as said
from dashboard.answers.verdict import Verdict
from dashboard.charts.verdict import changes
from dashboard.data import verdict as data_verdict
from dashboard.shelf import frame, open_shelf, reader
from dashboard.views import verdict
from tests.dashboard.opening import opened
from warehouse import queries
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
#: A repeat's own luck, the same for all metrics.
LUCK = (1.0, 1.004, 0.997)


def _text(value: str) -> str:
    return value.replace("\\", "")


def _headline(page: AppTest) -> str:
    return _text(page.header[0].value)


@pytest.fixture
def fill_study(
    empty_place: Path, make_source: Callable[..., Source], make_cell: Callable[..., Cell]
) -> Callable[..., None]:
    """``fill_study(gains, repeats=3, first_token=1.0, **facts)``: a baseline and EAGLE-3 whose
    output throughput gains so much at each of LEVELS."""

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
            for level, gain in zip(LEVELS, gains, strict=True):
                speed, first = (1.0, 1.0) if arm is BASELINE else ((1 + gain) * LUCK[repeat], later)
                known = {**FACTS, "concurrency": level, "repeat": repeat, **arm}
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


def _verdict(arm: str = "eagle3 K=3") -> Verdict:
    shelf, filters = open_shelf(), Filters()
    subject = next(iter(data_verdict.subjects(shelf, filters).values()))
    return data_verdict.verdict(shelf, filters, subject, arm)


def test_a_gain_at_every_load_is_turned_on_with_its_interval_and_its_cost(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.25, 0.25, 0.25))

    page = opened("verdict")

    assert _headline(page).startswith("Turn it on: EAGLE-3 with 3 draft tokens serves 25.0\u202f% ")
    assert "more output tokens per second (95\u202f%: 2" in _headline(page)
    assert "each token costs 20\u202f% less, at every load up to 64" in _headline(page)
    assert [tile.value for tile in page.metric][:2] == ["25.0\u202f% more", "20.0\u202f% less"]
    assert any("nothing that was measured" in text.value for text in page.markdown)


def test_a_gain_that_ends_is_turned_on_up_to_there(fill_study: Callable[..., None]) -> None:
    fill_study((0.6, 0.4, -0.1))

    page = opened("verdict")

    assert _headline(page).startswith("Turn it on up to about 39 concurrent requests")
    assert any("the gain ends at about concurrency 39" in _text(t.value) for t in page.markdown)


def test_a_loss_is_left_off_in_the_same_size(fill_study: Callable[..., None]) -> None:
    fill_study((-0.2, -0.2, -0.2))

    headline = _headline(opened("verdict"))

    assert headline.startswith("Leave it off: EAGLE-3 with 3 draft tokens serves 20.0\u202f% fewer")
    assert "each token costs 25\u202f% more" in headline


def test_one_repeat_decides_nothing_and_says_what_would(fill_study: Callable[..., None]) -> None:
    fill_study((0.5, 0.5, 0.5), repeats=1)

    headline = _headline(opened("verdict"))

    assert headline.startswith("Not known yet: EAGLE-3 with 3 draft tokens served 50.0\u202f% more")
    assert "run 3 to 5" in headline


def test_settings_that_disagree_depend(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), dataset="chat")
    fill_study((-0.3, -0.3, -0.3), dataset="code")

    headline = _headline(opened("verdict"))

    assert headline.startswith("It depends: EAGLE-3 with 3 draft tokens pays on chat · TP 1, not")
    assert "not on code · TP 1" in headline


def test_a_later_first_token_speaks_against_it(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), first_token=1.2)

    page = opened("verdict")

    told = next(_text(t.value) for t in page.markdown if "Against it" in t.value)
    assert "20.0\u202f% later first token (P95) on code · TP 1" in told
    assert page.metric[2].value == "20.0\u202f% later"


@pytest.mark.parametrize(
    ("evidence", "words"),
    [("simulated", "Simulated, not measured."), ("cpu", "A lab on a CPU, not a GPU.")],
)
def test_what_no_gpu_measured_is_said_first_and_in_every_chart(
    fill_study: Callable[..., None], evidence: str, words: str
) -> None:
    fill_study((0.3, 0.3, 0.3), evidence=evidence)

    found = _verdict()

    assert found.headline.startswith(words)
    drawings = [drawing for row in found.grid for drawing in row if drawing]
    assert drawings
    for drawing in (*drawings, found.changes):
        assert "[" in str(drawing["title"])


def test_the_numbers_are_those_of_the_analysis(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.2, 0.1))
    shelf = open_shelf()
    cells = data.cells(shelf, Filters())
    measured = frame(queries.measurements(reader(shelf), Filters(), METRICS_READ, STATISTICS_READ))
    found = compare(cells, measured)
    sure = intervals(found.pairs)
    one = overalls(found, sure, decisions(found, sure))[0]

    page = opened("verdict")

    assert page.metric[0].value == f"{said.amount(one.gain['improvement'])} more"
    assert said.interval(one.gain) in _text(_headline(page))


def test_an_arm_can_be_chosen_and_the_best_comes_first(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.3, 0.3, 0.3))
    fill_study((-0.3, -0.3, -0.3), num_speculative_tokens=7)

    page = opened("verdict")
    assert page.selectbox(key="method").options == ["eagle3 K=3", "eagle3 K=7"]
    page.selectbox(key="method").set_value("eagle3 K=7").run()

    assert _headline(page).startswith("Leave it off: EAGLE-3 with 7 draft tokens")


def test_one_verdict_is_about_one_model_and_hardware(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), gpu="H200")
    fill_study((-0.3, -0.3, -0.3), gpu="B200", evidence="simulated")

    page = opened("verdict")

    assert [option.split(",")[0] for option in page.selectbox(key="about").options] == [
        "lab/tiny-target on H200", "lab/tiny-target on B200",
    ]  # fmt: skip
    assert _headline(page).startswith("Turn it on")


def test_flags_stand_in_the_evidence(empty_place: Path, fill_cells: Fill, make_facts: Make) -> None:
    doubt = Flag("low_concurrency", "warning", "Only 100 requests were in flight, of the 200.")
    for arm in (BASELINE, EAGLE):
        fill_cells(empty_place, str(arm), [make_facts(**arm)], flags=(doubt,))

    found = _verdict()

    assert "2 cells in 1 setting" in found.evidence
    assert "low concurrency (1 pair)" in found.evidence
    assert "Only 100 requests were in flight" in found.evidence


def test_cells_without_a_partner_are_no_verdict_and_say_why(
    empty_place: Path, fill_cells: Fill, make_facts: Make
) -> None:
    fill_cells(empty_place, "alone", [make_facts(**EAGLE)])

    page = opened("verdict")

    assert _headline(page) == said.NOTHING
    assert "reason" in page.dataframe[0].value.columns


def test_unknown_values_everywhere_are_said_and_not_hidden(
    empty_place: Path, fill_cells: Fill, make_facts: Make
) -> None:
    nothing = dict.fromkeys(
        ("model", "gpu", "gpu_count", "engine", "engine_version", "tensor_parallel_size",
         "dataset", "precision", "evidence", "prompt_set_hash", "concurrency", "load_profile")
    )  # fmt: skip
    for arm in (BASELINE, EAGLE):
        fill_cells(empty_place, str(arm), [make_facts(**(arm | nothing))])

    page = opened("verdict")

    assert page.selectbox(key="about").options == [
        "unknown on unknown, unknown unknown  [evidence unknown]"
    ]
    assert page.header


def test_labels_of_arms_become_words() -> None:
    assert said.arm_words("eagle3 K=3") == "EAGLE-3 with 3 draft tokens"
    assert said.arm_words("mtp K=1") == "multi-token prediction with 1 draft token"
    assert said.arm_words("ngram K=?") == "n-gram lookup"
    assert said.arm_words("draft_model K=5 (tiny)") == "a draft model with 5 draft tokens (tiny)"
    assert said.arm_words("something else") == "something else"


def test_the_dumbbell_encodes_columns_that_exist() -> None:
    rows = pd.DataFrame(
        {"line": ["a"], "arm": ["eagle3 K=3"], "value": [0.1], "low": [0.05], "high": [0.2],
         "interval": ["+5 % to +20 %"]}
    )  # fmt: skip
    spec = changes(rows, "title", "subtitle").to_dict()

    fields = {
        channel["field"]
        for layer in spec["layer"]
        for channel in layer["encoding"].values()
        if isinstance(channel, dict) and "field" in channel
    }
    assert fields <= {*rows.columns, "zero"}
    assert verdict.TITLE == "Verdict"
