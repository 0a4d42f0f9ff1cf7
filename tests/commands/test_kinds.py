"""Kinds of prompts in one run: what is known of them is told right, and what is not known is said so."""

import csv
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.commands.asking import refused, run, told
from tests.commands.mixed import ALIKE, APART, EVEN, OF_LAUNCH, MixedStudy, hashed, write

#: Studies with known answers, of each sort.
STUDIES = 20
#: Filters to one arm.
K5 = ("--arm", "draft_model K=5")


class Kept:
    """A place with results and a warehouse."""

    def __init__(self, place: Path) -> None:
        self.place, self.results = place, place / "results"
        self.root = ("--warehouse", str(place / "warehouse"))

    def take_in(self, *studies: MixedStudy, more: tuple[str, ...] = ()) -> dict[str, Any]:
        for study in studies:
            write(study, self.results)
        return self.ingest(*more)

    def ingest(self, *more: str) -> dict[str, Any]:
        done = run("ingest", str(self.results), *self.root, *more, "--json")
        return dict(json.loads(done.stdout))

    def kinds(self, *more: str) -> dict[str, dict[str, Any]]:
        """Study -> what is told at its one load."""
        answer = told("compare", "--by", "category", *self.root, *more)
        return {one["study"]: one["loads"][0] for one in answer["settings"]}


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def of(at: dict[str, Any], kind: str, k: int) -> dict[str, Any]:
    (found,) = [o for o in at["arms"] if (o["kind"], o["arm"]) == (kind, f"draft_model K={k}")]
    return dict(found)


def test_each_kind_has_its_acceptance_its_share_and_its_gain(kept: Kept) -> None:
    study = MixedStudy("apart", APART)
    kept.take_in(study)
    at = kept.kinds()["apart"]
    assert {one["kind"]: one["share"] for one in at["shares"]} == {"coding": 0.5, "writing": 0.5}
    for kind in APART:
        for k in (1, 5):
            found = of(at, kind, k)
            low, high = found["length_low"] - 0.1, found["length_high"] + 0.1
            assert low <= study.length(kind, k) <= high
            assert found["itl"]["improvement"] == pytest.approx(study.gain(kind, k), abs=0.05)
            assert (found["requests"], found["prompts"], found["itl"]["launches"]) == (72, 24, 3)
    assert of(at, "coding", 5)["itl"]["word"] == "gain"


def test_the_words_say_whether_one_k_fits_all_and_what_speed_is(kept: Kept) -> None:
    kept.take_in(MixedStudy("apart", APART, 1), MixedStudy("alike", ALIKE, 2))
    said = " ".join(run("compare", "--by", "category", *kept.root).output.split())
    assert "One K does not fit all at 8 at once: writing waits 1" in said
    assert "less between tokens with draft_model K=1" in said
    assert "than with draft_model K=5, the best over all kinds" in said
    assert "One K fits all at 8 at once: with draft_model K=5 no kind of prompt waits more" in said
    assert "none has a throughput of its own" in said
    assert "Adjusted: for all gains by kind that the study judges together" in said
    assert "tok/s" not in said


def test_each_load_has_its_own_best_arm_over_all_kinds(kept: Kept) -> None:
    """At 32 at once a draft token costs a third of a step: K = 5 still pays for code, and for nothing else."""
    kept.take_in(MixedStudy("loads", APART, loads=(8, 32)))
    (setting,) = told("compare", "--by", "category", *kept.root)["settings"]
    few, many = setting["loads"]
    assert [at["load"]["value"] for at in (few, many)] == [8, 32]
    assert [at["one"]["arm"] for at in (few, many)] == ["draft_model K=5", "draft_model K=1"]
    assert [at["one"]["answer"] for at in (few, many)] == ["no", "no"]
    assert "writing waits" in few["one"]["sentence"]
    assert "coding waits" in many["one"]["sentence"]
    assert of(many, "writing", 5)["itl"]["word"] == "loss"


@pytest.mark.slow
def test_twenty_studies_of_each_sort_are_decided_right(kept: Kept) -> None:
    """Each kind its own best K, one K best for both, and too noisy to tell: decisions, and intervals."""
    sorts = {"apart": (APART, OF_LAUNCH), "alike": (ALIKE, OF_LAUNCH), "near": (EVEN, 0.05)}
    studies = [
        MixedStudy(f"{sort}-{seed}", chance, 100 * place + seed, of_launch=scatter)
        for place, (sort, (chance, scatter)) in enumerate(sorts.items())
        for seed in range(STUDIES)
    ]
    kept.take_in(*studies)
    found = kept.kinds()
    answers = Counter((s.name.split("-")[0], found[s.name]["one"]["answer"]) for s in studies)
    assert answers["apart", "no"] >= 19
    assert answers["alike", "yes"] >= 18
    assert answers["apart", "yes"] == answers["alike", "no"] == 0
    assert answers["near", "unknown"] >= 18
    assert answers["near", "no"] == 0
    held = [
        one["length_low"] <= s.length(kind, k) <= one["length_high"]
        for s in studies for kind in s.chance for k in (1, 5)
        if (one := of(found[s.name], kind, k))
    ]  # fmt: skip
    assert sum(held) >= 0.9 * len(held)


def test_a_word_does_not_change_with_a_filter(kept: Kept) -> None:
    kept.take_in(MixedStudy("apart", APART))
    whole, some = kept.kinds()["apart"], kept.kinds("--arm", "draft_model K=1")["apart"]
    assert some["one"] == whole["one"]
    assert some["arms"] == [one for one in whole["arms"] if one["arm"] == "draft_model K=1"]


def test_a_load_at_which_no_shown_arm_was_measured_is_not_told(kept: Kept) -> None:
    write(MixedStudy("fell", APART, loads=(8, 32)), kept.results)
    for place in kept.results.glob("*/k5-c32-*"):
        shutil.rmtree(place)
    kept.ingest()
    asked = ("compare", "--by", "category", *kept.root)
    (whole,), (some,) = (told(*asked, *more)["settings"] for more in ((), K5))
    assert [at["load"]["value"] for at in whole["loads"]] == [8, 32]
    assert [(at["load"]["value"], len(at["arms"])) for at in some["loads"]] == [(8, 2)]


def test_arms_beside_other_launches_of_the_reference_are_not_said_to_lack_requests(
    kept: Kept,
) -> None:
    """Another day's launches have a baseline of their own."""
    write(MixedStudy("days", ALIKE, arms=(0, 1)), kept.results)
    write(MixedStudy("days", ALIKE, arms=(0, 5)), kept.place / "later")
    for record in (kept.place / "later").glob("*/*/record.json"):
        said, report = json.loads(record.read_text()), record.with_name("guidellm.json")
        record.write_text(json.dumps(said | {"launch": f"later-{said['launch']}"}))
        report.write_text(re.sub(r"\b17(?=\d{8}\b)", "18", report.read_text()))
    kept.ingest()
    run("ingest", str(kept.place / "later"), *kept.root)
    at = kept.kinds()["days"]
    assert {one["itl"]["word"] for one in at["arms"]} == {"gain"}
    assert at["one"]["answer"] == "unknown"
    assert at["one"]["sentence"] == (
        "Whether one K fits all at 8 at once is unknown: not all arms were measured beside the same launches of the "
        "reference."
    )


def test_an_arm_has_one_name_in_table_and_sentence_whatever_else_its_study_holds(
    kept: Kept,
) -> None:
    """Two models with drafts of their own in one study."""
    write(MixedStudy("models", APART, launches=2), kept.results)
    shutil.copytree(kept.results, kept.place / "other")
    for record in (kept.place / "other").glob("*/*/record.json"):
        said = json.loads(record.read_text()) | {"model": "acme/other"}
        said |= {"draft_model": "acme/small"} if "draft_model" in said else {}
        record.write_text(json.dumps(said))
    kept.ingest()
    run("ingest", str(kept.place / "other"), *kept.root)
    at = kept.kinds("--model", "acme/chat-8b")["models"]
    assert {one["arm"] for one in at["arms"]} == {"draft_model K=1", "draft_model K=5"}
    assert "acme" not in at["one"]["sentence"]
    assert at["one"]["arm"] == "draft_model K=5"


def test_a_kind_with_too_few_requests_is_unknown_and_the_others_are_told(kept: Kept) -> None:
    few = {"coding": 0.8, "math": 0.8, "poetry": 0.8}
    kept.take_in(MixedStudy("few", few, prompts={"poetry": 3}))
    at = kept.kinds()["few"]
    poem = of(at, "poetry", 5)
    assert (poem["length"], poem["itl"]) == (None, None)
    assert poem["why_no_length"] == "fewer than 8 prompts tell it"
    assert "fewer than 8 requests in a launch" in poem["why_no_gain"]
    assert of(at, "coding", 5)["itl"]["word"] == "gain"
    assert at["one"]["answer"] == "unknown"
    assert "of poetry fewer than 8 requests in a launch" in at["one"]["sentence"]


def test_one_launch_and_one_kind_leave_it_unknown(kept: Kept) -> None:
    kept.take_in(MixedStudy("once", APART, launches=1), MixedStudy("single", {"coding": 0.8}))
    found = kept.kinds()
    assert "one launch" in found["once"]["one"]["sentence"]
    assert of(found["once"], "coding", 5)["itl"]["low"] is None
    assert of(found["once"], "coding", 5)["itl"]["improvement"] > 0.5
    assert "all requests are of coding" in found["single"]["one"]["sentence"]


def test_requests_that_say_no_kind_are_not_said_to_be_of_the_one_that_is_known(kept: Kept) -> None:
    study = MixedStudy("half", APART, told=False)
    write(study, kept.results)
    path = kept.place / "kinds.json"
    path.write_text(json.dumps({hashed(t): kind for kind, t in study.asked() if kind == "coding"}))
    kept.ingest("--categories", str(path))
    at = kept.kinds()["half"]
    assert {one["kind"]: one["share"] for one in at["shares"]} == {"coding": 0.5, None: 0.5}
    assert "all requests that say theirs are of coding" in at["one"]["sentence"]


def edited(results: Path, arm: str, change: Callable[[dict[str, Any], list[Any]], None]) -> None:
    """Change the record, and the requests, of every launch of an arm."""
    for record in results.glob(f"*/{arm}-*/record.json"):
        said, report = json.loads(record.read_text()), record.with_name("guidellm.json")
        told = json.loads(report.read_text())
        change(said, told["benchmarks"][0]["requests"])
        record.write_text(json.dumps(said))
        report.write_text(json.dumps(told))


def test_two_launches_that_differ_leave_no_figure_of_a_hundred_percent(kept: Kept) -> None:
    kept.take_in(MixedStudy("two", EVEN, 3, launches=2, arms=(0, 5), of_launch=0.05))
    sentence = kept.kinds()["two"]["one"]["sentence"]
    assert "may wait less with" in sentence
    assert "and 2 launches do not tell by how much." in sentence
    assert "100.0" not in sentence


def test_one_launch_beside_arms_with_more_is_told_as_one(kept: Kept) -> None:
    write(MixedStudy("fell", EVEN, 2, arms=(0, 1, 3, 5), of_launch=0.2), kept.results)
    for launch in (1, 2):
        shutil.rmtree(kept.results / "fell" / f"k5-c8-r{launch}")
    kept.ingest()
    sentence = kept.kinds()["fell"]["one"]["sentence"]
    assert sentence.endswith("and 1 launch does not tell by how much.")


def test_an_arm_that_was_not_compared_for_a_kind_leaves_it_unknown(kept: Kept) -> None:
    """Two answers of one arm have one token, so that seven of a kind have a time between tokens."""
    write(MixedStudy("ended", ALIKE, prompts={"coding": 200, "math": 9}), kept.results)

    def end(_: dict[str, Any], requests: Any) -> None:
        for one in [x for x in requests["successful"] if "math question" in x["request_args"]][:2]:
            one["output_tokens"] = 1
            times = one["info"]["timings"]
            times |= {"last_token_iteration": times["first_token_iteration"], "token_iterations": 1}

    edited(kept.results, "k1", end)
    kept.ingest()
    one = kept.kinds()["ended"]["one"]
    assert one["answer"] == "unknown"
    assert "of math fewer than 8 requests in a launch" in one["sentence"]


def test_where_another_arm_may_fit_all_it_is_not_said_that_none_does(kept: Kept) -> None:
    """K = 5 is best over all, since most is code; K = 3 is as good for code and better for the rest."""
    few = MixedStudy("rest", EVEN, arms=(0, 1, 3, 5), prompts={"coding": 90, "writing": 10})
    write(few, kept.results)
    paces = {"k1": (0.015, 0.015), "k3": (0.0101, 0.0100), "k5": (0.0100, 0.0106)}
    for arm, (code, rest) in paces.items():

        def paced(
            said: dict[str, Any], requests: Any, code: float = code, rest: float = rest
        ) -> None:
            for one in requests["successful"]:
                times, pace = (
                    one["info"]["timings"],
                    code if "coding" in one["request_args"] else rest,
                )
                last = times["first_token_iteration"] + 95 * pace * (1 + 0.001 * said["repeat"])
                times |= {"last_token_iteration": last, "request_end": last}

        edited(kept.results, arm, paced)
    kept.ingest()
    one = kept.kinds()["rest"]["one"]
    assert (one["answer"], one["arm"]) == ("unknown", "draft_model K=5")
    assert (
        "is unknown: writing waits 5.7\u202f% less between tokens with draft_model K=3"
        in one["sentence"]
    )
    assert one["sentence"].endswith("best over all kinds, but draft_model K=3 may fit all.")


def test_two_drafts_of_one_label_are_told_apart_in_the_sentence(kept: Kept) -> None:
    write(MixedStudy("drafts", APART), kept.results)

    def other(said: dict[str, Any], _: Any) -> None:
        said |= {"draft_model": "acme/other", "num_speculative_tokens": 5}

    edited(kept.results, "k1", other)
    kept.ingest()
    sentence = kept.kinds()["drafts"]["one"]["sentence"]
    assert "with draft_model K=5 (acme/other)" in sentence
    assert "than with draft_model K=5 (acme/draft), the best over all kinds" in sentence


def test_an_arm_whose_answers_break_is_no_candidate(kept: Kept) -> None:
    write(MixedStudy("broken", ALIKE, prompts={"coding": 80, "math": 80}), kept.results)

    def shorten(_: dict[str, Any], requests: Any) -> None:
        for one in requests["successful"][::8]:
            one["output_tokens"] = 1

    edited(kept.results, "k5", shorten)
    kept.ingest()
    one = kept.kinds()["broken"]["one"]
    (decided,) = told("verdict", *kept.root)["decisions"]
    assert one["arm"] == decided["arm"] == "draft_model K=1"
    broken = "No candidate, since its answers break: draft_model K=5."
    assert one["sentence"].endswith(broken)
    # Whatever the reference, and no server tells what an arm without drafts accepted.
    at = kept.kinds("--reference", "draft_model K=1")["broken"]
    assert at["one"]["sentence"].endswith(broken)
    assert "draft_model K=5" not in str(at["one"]["arm"])
    assert {x["why_no_length"] for x in at["arms"] if x["arm"] == "baseline"} == {
        "it drafts nothing"
    }


def test_without_counts_of_each_request_acceptance_is_unknown_and_the_gain_is_known(
    kept: Kept,
) -> None:
    kept.take_in(MixedStudy("mute", APART, counted=False))
    one = of(kept.kinds()["mute"], "coding", 5)
    assert one["length"] is one["rate"] is None
    assert "vLLM 0.32 with GuideLLM 0.8" in one["why_no_length"]
    assert one["itl"]["word"] == "gain"


# --- A mapping given at ingest.


def mapping(kept: Kept, study: MixedStudy, how: str) -> Path:
    asked = study.asked()
    path = kept.place / f"kinds.{how.partition(' ')[0]}"
    if how == "json":
        path.write_text(json.dumps({hashed(text): kind for kind, text in asked}))
    elif how == "csv":
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerows([("hash", "category"), *((hashed(t), kind) for kind, t in asked)])
    else:
        lines = [{"question_id": n, "category": kind, "turns": [text, "And then?"]}
                 for n, (kind, text) in enumerate(asked)]  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_kind_may_be_a_number(kept: Kept) -> None:
    study = MixedStudy("apart", APART, launches=1, told=False)
    write(study, kept.results)
    path = kept.place / "kinds.json"
    path.write_text(json.dumps({hashed(t): len(kind) for kind, t in study.asked()}))
    assert kept.ingest("--categories", str(path))["accepted"] == 3
    assert [one["kind"] for one in kept.kinds()["apart"]["shares"]] == ["6", "7"]


@pytest.mark.parametrize("how", ["json", "csv", "jsonl of SPEED-Bench and Spec-Bench"])
def test_a_mapping_tells_what_a_record_would_and_is_kept_for_a_rebuild(
    kept: Kept, how: str
) -> None:
    study = MixedStudy("apart", APART, told=False)
    kept.take_in(study)
    assert "category: FIELD" in str(refused("compare", "--by", "category", *kept.root))
    path = mapping(kept, study, how)
    taken = kept.ingest("--replace", "--categories", str(path))
    assert (taken["accepted"], taken["rejected"]) == (9, [])
    first = kept.kinds()["apart"]
    assert first["one"]["answer"] == "no"
    path.unlink()
    assert run("ingest", "--rebuild", *kept.root).exit_code == 0
    assert kept.kinds()["apart"] == first

    other = Kept(kept.place / "other")
    other.take_in(replace(study, told=True))
    told_by_record = other.kinds()["apart"]
    assert told_by_record["one"] == first["one"]
    assert [one["length"] for one in told_by_record["arms"]] == [
        one["length"] for one in first["arms"]
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "prompt,kind\nWhy?,math\n", "no row with category and one of hash, prompt_hash, prompt, turns; it has kind, prompt."),
        ("a.json", "[1, 2]", "cannot be read as CSV, JSON or JSONL (its rows have no columns)"),
        ("a.json", "{", "cannot be read as CSV, JSON or JSONL"),
        ("a.json", "{}", "it has no rows."),
        ("a.json", '{"abc": "math"}', "has the hash 'abc'; the hash of a prompt is the first 32 hex digits"),
        ("a.jsonl", '{"prompt": "Why?", "category": "math"}\n{"prompt": "Why?", "category": "art"}', "has one prompt as 'math' and as 'art'"),
    ],
)  # fmt: skip
def test_a_mapping_that_is_none_is_refused_in_a_sentence_and_nothing_is_stored(
    kept: Kept, name: str, text: str, said: str
) -> None:
    write(MixedStudy("apart", APART, launches=1), kept.results)
    (kept.place / name).write_text(text)
    done = run("ingest", str(kept.results), *kept.root, "--categories", str(kept.place / name))
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert not (kept.place / "warehouse").exists()


def test_a_mapping_that_fits_no_prompt_stores_nothing(kept: Kept) -> None:
    study = MixedStudy("apart", APART, launches=1)
    write(study, kept.results)
    path = mapping(kept, MixedStudy("another", APART), "json")
    taken = kept.ingest("--categories", str(path))
    assert (taken["accepted"], taken["cells"], len(taken["rejected"])) == (0, 0, 3)
    assert {one["reason"] for one in taken["rejected"]} == {
        "This result has none of the prompts of --categories: give the mapping of its own prompts, "
        "or take it in without."
    }


def test_a_warehouse_without_categories_answers_compacts_and_says_what_to_do(kept: Kept) -> None:
    """As one was before requests had a category."""
    kept.take_in(MixedStudy("old", APART))
    before = told("compare", *kept.root)
    for path in (kept.place / "warehouse" / "requests").glob("*.parquet"):
        with pq.ParquetFile(path) as file:
            groups = [file.read_row_group(n) for n in range(file.num_row_groups)]
        schema = groups[0].drop_columns("category").schema
        with pq.ParquetWriter(path, schema) as out:
            for group in groups:
                out.write_table(group.drop_columns("category"))
    assert "--categories FILE" in str(refused("compare", "--by", "category", *kept.root))
    assert told("compare", *kept.root) == before
    bundle = kept.place / "bundle"
    assert run("share", "bundle", "--out", str(bundle), *kept.root).exit_code == 0
    assert told("compare", "--warehouse", str(bundle))["settings"] == before["settings"]
    compacted = run("warehouse", "compact", *kept.root)
    assert compacted.exit_code == 0, compacted.output
    assert told("compare", *kept.root) == before
