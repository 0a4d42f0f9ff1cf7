"""The Decide page: the decision in one sentence, honest when the answer is no or unknown."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from tests.commands.asking import run
from tests.commands.lengths import CROSSING, LengthStudy, write
from tests.dashboard.opening import opened, refused
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.rows import Cell, Flag, Measurement, Source
from warehouse.store import open_writer

Fill = Callable[..., None]
Make = Callable[..., Facts]
LEVELS = (1, 8, 64)
FOLDS = (
    "which_k", "against", "stake", "by_length", "by_load", "same", "left_out", "rules", "changed",
)  # fmt: skip
FACTS = {"model": "lab/tiny-target", "dataset": "code", "evidence": "gpu", "study": "one"}
BASELINE = {"spec_method": "none"}
EAGLE = {"spec_method": "eagle3", "num_speculative_tokens": 3}
#: A launch's own luck at each level, the same for all metrics.
LUCK = ((1.0, 1.004, 0.997), (1.003, 0.998, 1.0), (0.996, 1.001, 1.004))


def said(page: AppTest) -> str:
    texts = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info]
    return plain("\n".join(text.value for text in texts))


def tiles(page: AppTest) -> dict[str, tuple[str, str]]:
    """Label of a figure -> its value and note."""
    return {one.label: (plain(one.value), plain(one.delta)) for one in page.metric}


def plain(text: str) -> str:
    return text.replace("\\", "").replace("\u202f", " ")


def unfolded(**link: str) -> AppTest:
    """The page with all parts open."""
    return opened("decide", **(dict.fromkeys(FOLDS, "true") | link))


def labels(page: AppTest) -> str:
    """The heads of what is folded."""
    return "\n".join(plain(one.label) for one in page.expander)


def load_map(page: AppTest) -> list[dict[str, Any]]:
    """The cells of the load map."""
    drawn = (one.proto for one in page.get("vega_lite_chart"))
    (chart,) = (one for one in drawn if "Does it pay, and where?" in one.spec)
    (sent,) = chart.datasets
    rows: list[dict[str, Any]] = pa.ipc.open_stream(sent.data.data).read_all().to_pylist()
    return rows


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

    page = opened("decide")

    assert headline(page) == (
        "Yes at 64 at once: serve with EAGLE-3 with 3 draft tokens; it pays at 1, 8 and 64 at once."
    )
    told = tiles(page)
    assert told["Output throughput at 64 at once"][0].startswith("+25.")
    value, note = told["Cost of an output token at 64 at once"]
    assert value.startswith("-20.")
    assert note.startswith("gain, same hardware; 95 %: -2")
    assert [row["word"] for row in load_map(page)] == ["gain"] * 3
    assert page.code[-1].value.startswith("vllm serve tiny --speculative-config")
    assert "Nothing that was measured" in said(unfolded())


def test_a_gain_that_ends_is_a_no_at_the_largest_load_and_named_at_the_others(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.6, 0.4, -0.1))

    page = unfolded()

    assert headline(page).startswith(
        "No at 64 at once: no arm gains there; the best, eagle3 K=3, gives 10.0"
    )
    assert "At 1 and 8 at once eagle3 K=3 gains +" in said(page)
    assert (
        "One server could do both, with K by batch size (3 draft tokens in batches up to 39, then no "
        "drafts)" in said(page)
    )
    both = opened("decide", at_load="8")
    assert headline(both).startswith(
        "Yes at 8 at once: serve with EAGLE-3 (3 draft tokens in batches"
    )
    assert "drafts nothing at 64 at once" in headline(both)


def test_a_loss_is_a_no(fill_study: Callable[..., None]) -> None:
    fill_study((-0.2, -0.2, -0.2))

    page = opened("decide")

    assert headline(page).startswith("No at 64 at once: no arm gains there")
    assert not page.code
    assert "Nothing to paste: serve without speculation." in said(page)


def test_one_launch_decides_nothing_and_says_what_would(fill_study: Callable[..., None]) -> None:
    fill_study((0.5, 0.5, 0.5), repeats=1)

    page = unfolded()

    assert headline(page).startswith("Open (one launch) at 64 at once: EAGLE-3 with 3 draft tokens")
    assert "set repeats: 3 in the study and run it again" in said(page)


def test_several_datasets_are_told_as_a_mix_and_each_by_itself(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.3, 0.3, 0.3), dataset="chat")
    fill_study((-0.3, -0.3, -0.3), dataset="code")

    page = opened("decide", by_load="true")

    table = page.dataframe[0].value
    answers = dict(zip(table["traffic"], table["answer"], strict=True))
    assert list(answers)[0] == "mix of 2"
    assert (answers["chat"], answers["code"]) == ("yes", "no")
    assert list(dict.fromkeys(row["place"] for row in load_map(page))) == table["traffic"].tolist()
    traffic = page.selectbox(key="traffic")
    assert traffic.options[0] == "50 % chat + 50 % code"
    assert (
        opened("decide", mix="chat=0.9,code=0.1")
        .selectbox(key="traffic")
        .options[0]
        .startswith("90")
    )
    traffic.set_value("code").run()
    assert headline(page).startswith("code: No at 64 at once: ")


def test_a_later_first_token_speaks_against_it(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), first_token=1.2)

    page = opened("decide", against="true")

    assert "What speaks against it: 3" in labels(page)
    assert "longer time to first token (P95)" in said(page)


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

    page = unfolded()

    assert words in said(page)
    assert badge in page.selectbox(key="about").options[0]
    charts = page.get("vega_lite_chart")
    assert len(charts) == 3
    assert all(badge in str(json.loads(chart.proto.spec)["title"]) for chart in charts)


def test_the_reader_s_load_objective_and_slo_are_asked(fill_study: Callable[..., None]) -> None:
    fill_study((0.6, 0.4, -0.1))

    page = opened("decide", at_load="8")
    assert tiles(page)["Output throughput at 8 at once"][0].startswith("+4")
    assert [row["load"] for row in load_map(page) if row["outlined"]] == ["8"]
    nowhere = opened("decide", at_load="500")
    assert "nothing is known of 500 at once" in headline(nowhere)
    assert "Output throughput at 64 at once" in tiles(nowhere)
    page = unfolded(objective="Latency")
    assert "request latency (median)" in said(page)
    missed = opened("decide", draft_slo="ttft:p95<1ms")
    assert "no arm meets ttft:p95<1ms, and the baseline misses it too" in headline(missed)
    assert "is no share of a dataset" in refused("decide", mix="code")
    assert "is no load above 0" in refused("decide", at_load="many")


def test_arms_compete_and_a_chosen_one_is_judged_alone(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3))
    fill_study((-0.3, -0.3, -0.3), num_speculative_tokens=7)

    assert "EAGLE-3 with 3 draft tokens" in headline(opened("decide"))
    alone = headline(opened("decide", Filters(arm=("eagle3 K=7",))))
    assert alone.startswith("No at 64 at once: no arm gains there; the best, eagle3 K=7,")


def test_one_verdict_is_about_one_model_and_hardware(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), gpu="H200")
    fill_study((-0.3, -0.3, -0.3), gpu="B200", evidence="simulated")

    options = opened("decide").selectbox(key="about").options

    assert sorted(option.split(",")[0] for option in options) == [
        "lab/tiny-target on B200", "lab/tiny-target on H200",
    ]  # fmt: skip


def test_two_sizes_are_told_in_one_paragraph(fill_study: Callable[..., None]) -> None:
    fill_study((0.3, 0.3, 0.3), tensor_parallel_size=1)
    fill_study((-0.3, -0.3, -0.3), tensor_parallel_size=2)

    page = opened("decide")

    assert len(page.selectbox(key="about").options) == 1
    assert [row["place"] for row in load_map(page)] == ["TP 1, code"] * 3 + ["TP 2, code"] * 3
    assert "TP 1, code: Yes" in headline(page)
    assert "TP 2, code: No" in headline(page)


def test_what_changed_since_the_last_recorded_decision_is_said(
    fill_study: Callable[..., None], empty_place: Path
) -> None:
    fill_study((0.3, 0.3, 0.3))
    assert "Nothing that was recorded" in said(unfolded())
    run("verdict", "--warehouse", str(empty_place), "--record")
    assert "What changed since the last decision: nothing" in labels(opened("decide"))

    fill_study((0.6, 0.5, 0.4), num_speculative_tokens=7)

    assert "What changed since the last decision: 1" in labels(opened("decide"))
    assert "eagle3 K=7, was eagle3 K=3" in said(opened("decide", changed="true"))


def test_a_cell_that_decides_nothing_is_named(
    empty_place: Path, fill_cells: Fill, make_facts: Make, fill_study: Callable[..., None]
) -> None:
    fill_study((0.3, 0.3, 0.3))
    doubt = Flag("error_rate_high", "error", "87 of 100 requests failed.")
    facts = make_facts(**(FACTS | {"concurrency": 1} | EAGLE))
    fill_cells(empty_place, "failed", [facts], flags=(doubt,))

    page = opened("decide", left_out="true")

    assert "What was left out: 1" in labels(page)
    assert "87 of 100" in said(page)


def test_cells_without_a_partner_are_no_verdict_and_say_why(
    empty_place: Path, fill_cells: Fill, make_facts: Make
) -> None:
    fill_cells(empty_place, "alone", [make_facts(**EAGLE)])

    page = opened("decide")

    assert headline(page).startswith("Not known yet")
    assert "why it is not compared" in page.dataframe[0].value.columns


def test_unknown_values_everywhere_are_said_and_not_hidden(
    empty_place: Path, fill_cells: Fill, make_facts: Make
) -> None:
    nothing = dict.fromkeys(
        ("model", "gpu", "gpu_count", "engine", "engine_version", "tensor_parallel_size",
         "dataset", "precision", "evidence", "prompt_set_hash")
    )  # fmt: skip
    for arm in (BASELINE, EAGLE):
        fill_cells(empty_place, str(arm), [make_facts(**(arm | nothing))])

    page = opened("decide")

    assert page.selectbox(key="about").options == [
        "unknown on unknown, unknown unknown  [evidence unknown]"
    ]
    assert "unknown" in labels(page)


@pytest.mark.parametrize(("name", "gone"), [("about", "lost-model on H100"), ("traffic", "poems")])
def test_a_link_to_what_is_gone_shows_no_verdict_for_something_else(
    fill_study: Callable[..., None], name: str, gone: str
) -> None:
    fill_study((0.3, 0.3, 0.3))

    page = opened("decide", **{name: gone})

    assert headline(page) == f"Not here any more: {gone}"
    assert not page.get("vega_lite_chart")
    assert not page.metric
    assert not page.code
    box = page.selectbox(key=name)
    box.set_value(box.options[0]).run()
    assert headline(page).startswith("Yes at 64 at once: serve with EAGLE-3")


def test_a_link_that_names_a_traffic_alone_opens_the_subject_that_has_it(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.3, 0.3, 0.3), model="first", dataset="code")
    fill_study((0.3, 0.3, 0.3), model="other", dataset="poems")

    page = opened("decide", traffic="poems")

    assert headline(page).startswith("Yes at 64 at once")
    assert page.selectbox(key="about").value.startswith("other on ")


def test_the_charts_say_their_answer_to_who_does_not_see_them(
    fill_study: Callable[..., None],
) -> None:
    fill_study((0.6, 0.4, -0.1))

    served, seen, k = (chart.proto.alt for chart in unfolded().get("vega_lite_chart"))

    assert plain(served).endswith("eagle3 K=3 on code: more at 1, 8, less at 64.")
    assert seen == "Load map. code: eagle3 K=3: gain 1, 8; no drafts 64."
    assert "Taken: at 1 at once no drafts; better there: eagle3 K=3 +" in k
    assert "at 64 at once no drafts" in k


STUDY = Path(__file__).parents[2] / "examples" / "claims" / "published-study.yaml"


def test_what_a_gpu_told_stands_before_a_published_study_and_that_before_the_rest(
    empty_place: Path, fill_cells: Fill, make_facts: Make
) -> None:
    for evidence, arm in product(("cpu", "gpu"), (BASELINE, EAGLE)):
        known = make_facts(**arm, model=f"on {evidence}", evidence=evidence)
        fill_cells(empty_place, f"{evidence} {arm}", [known])
    assert run("ingest", str(STUDY), "--warehouse", str(empty_place)).exit_code == 0

    page = opened("decide")

    first, second, third = page.selectbox(key="about").options
    assert ("on gpu" in first, "published" in second, "on cpu" in third) == (True, True, True)
    assert "measure where you serve" in said(page)


def test_a_published_study_is_the_first_subject_and_nothing_is_decided_on_it(
    empty_place: Path, fill_cells: Fill, make_facts: Make
) -> None:
    for arm in (BASELINE, EAGLE):
        fill_cells(empty_place, str(arm), [make_facts(**arm, concurrency=load) for load in LEVELS])
    assert run("ingest", str(STUDY), "--warehouse", str(empty_place)).exit_code == 0

    page = opened("decide")

    assert plain(page.header[0].value).startswith("Published: EAGLE-3 with 3 draft tokens, 9.5 to")
    (chart,) = page.get("vega_lite_chart")
    tables = (pa.ipc.open_stream(sent.data.data).read_all() for sent in chart.proto.datasets)
    (told,) = (table.to_pydict() for table in tables if "told" in table.column_names)
    drawn = dict(zip(told["name"], told["told"], strict=True))
    speeds = [text for name, text in drawn.items() if name.endswith(": Output throughput")]
    assert speeds == ["+20.7 %", "+9.5 %", "+16 %", "+20.5 %"]
    assert drawn["MLPerf, TP 2: Time to first token (TTFT), P95"] == (
        "+9.3 % wrong sign: its row gives -9.2 %"
    )
    assert not page.code
    assert not page.metric
    about = page.selectbox(key="about")
    about.set_value(about.options[1]).run()
    assert not page.exception
    assert not plain(page.header[0].value).startswith("Published")
    assert page.code or page.metric


def test_the_load_map_folds_out_by_length_of_prompt(empty_place: Path, tmp_path: Path) -> None:
    study = LengthStudy("crossing", CROSSING, loads=(1, 8))
    run("ingest", str(write(study, tmp_path / "results")), "--warehouse", str(empty_place))
    text = said(opened("decide", by_length="true"))
    assert (
        "Two servers, up to 8,192 tokens with draft_model K=5, above with draft_model K=1" in text
    )
    assert "draft_model K=5 pays up to 8,192 tokens, no longer pays from 65,536 tokens on." in text
    page = opened("decide", by_length="true")
    drawn = [one.proto for one in page.get("vega_lite_chart")]
    maps = [one for one in drawn if "Does it pay, and where?" in one.spec]
    (sent,) = maps[-1].datasets
    rows = pa.ipc.open_stream(sent.data.data).read_all().to_pylist()
    assert {row["traffic"] for row in rows} == {"512 tokens", "8,192 tokens", "65,536 tokens"}
    assert len(rows) == 6


def test_where_no_lengths_are_known_the_fold_says_so(fill_study: Fill) -> None:
    fill_study((0.2, 0.1, 0.05))
    assert "No results are of prompts of two lengths at one load (unknown)" in said(
        opened("decide", by_length="true")
    )
