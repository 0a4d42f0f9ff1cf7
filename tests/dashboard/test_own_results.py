"""Files that a reader drops: guessed, decided like any other, refused alike, and gone afterwards."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from streamlit.testing.v1 import AppTest

from analysis.matching.guess import Guess, from_name, together
from answers.compare.answer import answer_uploads
from answers.compare.values import CompareQuestion
from answers.decide.overview import overviews
from dashboard import upload
from dashboard.upload import MOST_FILES, MOST_MB, Report, Uploaded, keep, place, take_in
from tests.commands.test_broken_answers import BROKEN
from tests.commands.test_broken_answers import bench as broken
from tests.conftest import ROOT, Drop, recorded_drop
from tests.dashboard.opening import opened
from tests.ingest.readers.test_sglang import line
from tests.secrets.planted import bench
from warehouse import queries
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

BASELINE, DRAFT = recorded_drop("code", "none"), recorded_drop("code", "draft_model", 3)
OTHER = recorded_drop("structured", "draft_model", 3)
HOSTILE = "../../<b onmouseover=alert(1)>.json"


def _report(drop: Drop) -> Report:
    return Report(drop.report.name, drop.report.read_bytes(), drop.stated)


def headline(mine: Uploaded, root: Path | None = None) -> str | None:
    """What is decided on the files, alone or beside a warehouse."""
    assert mine.held is not None
    if root is None:
        found = answer_uploads(mine.held, None, CompareQuestion()).decisions
    else:
        with Reader(root) as reader:
            found = answer_uploads(mine.held, reader, CompareQuestion()).decisions
    return overviews(found.decisions)[0].headline if found.decisions else None


@pytest.fixture(scope="module")
def lab() -> Uploaded:
    """Both arms of the laptop lab and a file that is no report."""
    return take_in([_report(BASELINE), _report(DRAFT), Report(HOSTILE, b'{"a": 1}')])


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("baseline-H100-tp2.json", Guess("none", None, "H100", None, 2)),
        ("no-spec_code.json", Guess("none", None, None, "code")),
        ("eagle3_k5_h200.json.gz", Guess("eagle3", 5, "H200")),
        ("llama-EAGLE-k=3.json", Guess("eagle", 3)),
        ("ngram-random.json", Guess("ngram")),
        ("prompt_lookup.json", Guess("ngram")),
        ("k3.json", Guess("speculative", 3)),
        ("draft-model-spec-tokens-4.json", Guess("draft_model", 4)),
        ("openai-infqps-concurrency4-tiny-20261121-091427.json", Guess()),
        ("database-specs.json", Guess()),
    ],
)
def test_a_name_says_what_a_file_is(name: str, guess: Guess) -> None:
    assert from_name(name, ("code", "chat")) == guess


def test_contents_win_over_names_and_no_file_is_what_the_others_are_not() -> None:
    nothing, drafted = Guess(), Guess(None, 3)

    assert [one.method for one in together([nothing] * 2, [nothing, drafted])] == [
        None, "speculative",
    ]  # fmt: skip
    (one,) = together([Guess("none", None, "H100")], [Guess(None, 3, "B200")])
    assert (one.method, one.num_speculative_tokens, one.gpu) == ("speculative", 3, "B200")
    named = [Guess("none"), nothing]
    assert [x.method for x in together(named, [nothing] * 2)] == ["none", None]


def test_two_reports_are_decided_without_any_warehouse(lab: Uploaded) -> None:
    assert lab.held is not None
    assert len(lab.held.read) == BASELINE.levels + DRAFT.levels
    assert {place(one) for one in lab.held.read} == {0, 1}
    assert {one.method for one in lab.held.read} == {"none", "draft_model"}
    assert "a draft model with 3 draft tokens" in str(headline(lab))


def test_a_file_that_is_no_report_is_refused_with_the_reason_of_ingest(lab: Uploaded) -> None:
    ((name, reason),) = lab.rejections
    assert name == HOSTILE
    assert reason.startswith("This is neither ")
    assert "a GuideLLM report" in reason
    assert reason.endswith("load generator wrote.")


def test_nothing_stays_on_the_disk_and_the_real_warehouse_is_untouched(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in warehouse.rglob("*")}

    take_in([_report(BASELINE)])

    assert list(tmp_path.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in warehouse.rglob("*")} == before


def test_files_that_are_kept_are_results_like_others_and_can_be_read_again(
    empty_place: Path, lab: Uploaded
) -> None:
    from click.testing import CliRunner

    from draftboard import cli

    refused = keep([_report(BASELINE), _report(DRAFT), Report("a.json", b"{}")], empty_place)

    assert [name for name, _ in refused] == ["a.json"]
    with Reader(empty_place) as reader:
        assert queries.cells(reader, Filters()).num_rows == BASELINE.levels + DRAFT.levels
    done = CliRunner().invoke(cli, ["ingest", "--rebuild", "--warehouse", str(empty_place)])
    assert done.exit_code == 0, done.output


def test_a_warehouse_that_takes_nothing_says_so_in_a_sentence(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("no folder")

    with pytest.raises(InvalidInput, match="takes nothing in"):
        keep([_report(BASELINE)], place)


def test_an_uploaded_arm_finds_its_baseline_in_the_warehouse(
    empty_place: Path, lab: Uploaded
) -> None:
    keep([_report(BASELINE)], empty_place)
    mine = take_in([_report(DRAFT)])

    assert headline(mine, empty_place) == headline(lab)
    assert headline(mine) is None
    with Reader(empty_place) as reader:
        assert queries.cells(reader, Filters()).num_rows == BASELINE.levels


def test_a_wrong_fact_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="does not know the key 'gpuu'"):
        take_in([Report("a.json", b"{}", ("gpuu=3",))])


def test_too_much_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InvalidInput, match=f"larger than {MOST_MB} MB"):
        take_in([Report("large.json", b" " * ((MOST_MB << 20) + 1))])
    large = Report("a.json", b" " * (MOST_MB << 20))
    for many in ([Report("a.json", b"{}")] * (MOST_FILES + 1), [large] * 9):
        with pytest.raises(InvalidInput, match=f"at most {MOST_FILES}"):
            take_in(many)


def test_a_file_that_unpacks_without_end_is_refused() -> None:
    bomb = zstandard.compress(b"[" + b" " * (512 << 20))

    told = take_in([Report("bomb.json.zst", bomb)])

    assert told.held is None
    assert len(told.rejections) == 1


def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_SECONDS", 0.05)

    told = take_in([_report(BASELINE)])

    assert "too much time" in told.rejections[0][1]


def _dropped(*files: tuple[str, bytes]) -> AppTest:
    page = opened("decide", add="true")
    page.file_uploader(key="files").set_value([(name, data, "") for name, data in files]).run()
    assert not page.exception, page.exception
    return page


def _said(page: AppTest) -> str:
    shown = [*page.subheader, *page.markdown, *page.warning, *page.info, *page.error, *page.success]
    return "\n".join(one.value for one in shown).replace("\\", "")


@pytest.mark.usefixtures("warehouse")
def test_the_page_gives_a_verdict_and_says_what_was_refused_as_text() -> None:
    page = _dropped(
        ("baseline.json.zst", BASELINE.report.read_bytes()),
        ("draft-model-k3.json.zst", DRAFT.report.read_bytes()), (HOSTILE, b'{"a": 1}'),
    )  # fmt: skip

    assert "a draft model with 3 draft tokens gives" in page.subheader[0].value
    loads = next(one.value for one in page.dataframe if "certainty" in one.value)
    assert set(loads["K"]) == {"3"}
    assert f"{HOSTILE}: This is neither" in _said(page)
    assert not any(element.allow_html for element in page.markdown)


@pytest.mark.usefixtures("warehouse")
def test_what_nobody_tells_is_asked_of_each_file() -> None:
    page = _dropped(*((f"{n}.json.zst", drop.report.read_bytes())
                      for n, drop in enumerate((BASELINE, DRAFT))))  # fmt: skip
    assert "Which file is the baseline, and what do the others draft with?" in _said(page)

    for number, arm in enumerate(("none", "speculative")):
        assert not page.subheader
        (box,) = [box for box in page.selectbox if box.label == f"Arm of {number}.json.zst"]
        box.set_value(arm).run()

    assert "speculation gives" in page.subheader[0].value
    assert any("Nothing to paste while nothing is settled" in x.value for x in page.caption)


@pytest.mark.usefixtures("warehouse")
def test_files_of_one_method_whose_names_differ_are_two_drafts_and_not_repeats_of_one() -> None:
    page = _dropped(
        ("baseline.json.zst", BASELINE.report.read_bytes()),
        ("draft-model-small-r2.json.zst", DRAFT.report.read_bytes()),
        ("draft-model-large.json.zst", OTHER.report.read_bytes()),
    )

    assert any("different drafts \\(small, large\\)" in text.value for text in page.caption)
    loads = next(one.value for one in page.dataframe if "certainty" in one.value)
    assert set(loads["K"]) == {"unknown"}
    read = page.dataframe[-1].value
    assert set(zip(read["arm"], read["repeat"], strict=True)) == {
        ("baseline", "unknown"), ("draft_model K=? (small)", "2"), ("draft_model K=? (large)", "unknown"),
    }  # fmt: skip
    # Its prompts are others; the table names the file that was dropped, not where it lay.
    alone = next(one.value for one in page.dataframe if "why it is not compared" in one.value)
    assert set(alone["from"]) == {"draft-model-large.json.zst"}


#: Results of which vLLM's says no dataset and SGLang's "custom", whatever the prompts were.
SAY_LITTLE = {
    "vllm": lambda: bench(False),
    "sglang": lambda: line(
        dataset_name="custom", backend="vllm", max_concurrency=4, request_rate=4.0
    ),
}


@pytest.mark.parametrize(
    "sets", [("code", "chat"), ("128_256", "512_256"), ("gsm8k_100", "gsm8k_200")]
)
@pytest.mark.parametrize("kind", SAY_LITTLE)
@pytest.mark.usefixtures("warehouse")
def test_datasets_that_only_names_tell_apart_are_no_repeats_of_one(
    kind: str, sets: tuple[str, str]
) -> None:
    """``code`` is known to the warehouse, ``chat`` to nobody."""
    page = _dropped(
        *(
            (f"{arm}_{dataset}.json", _as_fast(SAY_LITTLE[kind](), tokens_per_s))
            for dataset, (slow, fast) in zip(sets, ((9.0, 13.5), (3.0, 3.75)), strict=True)
            for arm, tokens_per_s in (("baseline", slow), ("eagle3-k3", fast))
        )
    )

    read = page.dataframe[-1].value
    assert len(read) == len(set(zip(read["arm"], read["dataset"], strict=True))) == 4
    gains = {one for table in page.dataframe if "improvement" in table.value
             for metric, one in zip(table.value["metric"], table.value["improvement"], strict=True)
             if metric.startswith("Output throughput")}  # fmt: skip
    assert gains == {"+25.0\u202f%", "+50.0\u202f%"}


def _as_fast(said: dict[str, Any], tokens_per_s: float) -> bytes:
    """The result with a duration that makes its output throughput this, in tokens/s."""
    said["duration"] = said["total_output_tokens"] / tokens_per_s
    said["output_throughput"] = tokens_per_s
    said["request_throughput"] = said["completed"] / said["duration"]
    both = (said["total_input_tokens"] + said["total_output_tokens"]) / said["duration"]
    said["total_token_throughput" if "total_token_throughput" in said else "total_throughput"] = (
        both
    )
    return json.dumps(said).encode()


@pytest.mark.usefixtures("warehouse")
def test_flags_name_no_method_that_nobody_stated() -> None:
    page = _dropped(
        ("base.json.zst", BASELINE.report.read_bytes()), ("k3.json.zst", DRAFT.report.read_bytes())
    )

    assert "speculation with 3 draft tokens gives" in page.subheader[0].value
    assert not [code for code in page.code if "speculative" in code.value.split("method")[1][:16]]


@pytest.mark.usefixtures("warehouse")
def test_servers_that_differ_are_refused_on_the_page_too_with_the_way_out() -> None:
    folder = ROOT / "tests/fixtures/cases/04-sglang-servers-of-different-size-paired"
    page = _dropped(*((path.name, path.read_bytes()) for path in sorted(folder.glob("*.jsonl"))))

    assert page.subheader[0].value == "No verdict on these files"
    assert "--allow server_args.max-running-requests" in page.info[0].value.replace("\\", "")
    alone = next(one.value for one in page.dataframe if "why it is not compared" in one.value)
    assert len(alone) == 3


@pytest.mark.usefixtures("warehouse")
def test_the_best_arm_at_the_largest_load_is_taken_on_the_page_too() -> None:
    folder = ROOT / "tests/fixtures/cases/03-one-arm-below-another-above"
    page = _dropped(
        *(
            ("-".join(path.relative_to(folder).parts), path.read_bytes())
            for path in sorted(folder.rglob("*.json"))
        )
    )

    said = _said(page)
    assert "Open at 128 at once: multi-token prediction with 2 draft tokens" in said
    assert "An output token probably costs 13.1\u202f% less there" in said
    assert "At 1 and 8 at once dspark K=7 is likely better" in said
    loads = next(one.value for one in page.dataframe if "certainty" in one.value)
    assert set(loads["K"]) == {"2"}
    assert loads["better there"].tolist()[2:] == ["–"] * 3


@pytest.mark.usefixtures("warehouse")
def test_an_arm_that_breaks_answers_is_refused_on_the_page_too() -> None:
    arms = {"baseline": ("base", 0, 0, 0.01), "mtp-k2": ("mtp", 8, 1, 0.007)}
    page = _dropped(
        *(
            (f"{name}-r{launch}.json", broken(arm, launch, *how))
            for name, (arm, *how) in arms.items()
            for launch in range(3)
        )
    )

    assert f"No at 16 at once: mtp K=2 breaks answers: at 16 at once {BROKEN}" in _said(page)
    assert "Against it" not in _said(page)


def test_files_that_hold_no_result_say_so(warehouse: Any) -> None:
    page = _dropped(("a.json", b"{}"))

    assert page.subheader[0].value == "None of these files holds a result"
    assert "a.json: This is neither" in _said(page)


@pytest.mark.usefixtures("warehouse")
def test_the_form_is_folded_until_it_is_wanted() -> None:
    assert not opened("decide").get("file_uploader")
    assert opened("decide", add="true").get("file_uploader")
