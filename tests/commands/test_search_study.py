"""A search that measures: the FAKE engine, the real GuideLLM, drops of an ordinary study."""

import json
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.search.space import SearchArm, config_of
from answers.search.board import from_texts
from answers.search.values import SearchPlan
from commands.running.plan import planned as costed
from commands.running.search_study import (
    SearchTask,
    _check_arms,
    lost_min,
    nothing_left,
    planned,
    refused,
)
from runners.executors import PROGRAM
from runners.planning.loads import LoadLevel
from runners.planning.plan import Launch, Plan
from tests.commands.asking import run, told
from tests.runners.small_study import PATIENCE_S, SmallStudy, small_study, wait_for
from warehouse.beside import read_searches
from warehouse.errors import InvalidInput, RunnerError

ROOT = Path(__file__).parents[2]


QUICK = ROOT / "studies" / "laptop-lab-quick.yaml"


def searchable(change: Callable[[Launch], Launch | None] = lambda launch: launch) -> SearchPlan:
    """The quick study of the lab as a search takes it, with its launches changed or left out."""
    plan, costs, _ = costed(QUICK)
    launches = tuple(launch for each in plan.launches if (launch := change(each)) is not None)
    return planned(Plan(plan.study, launches), costs)


def test_a_study_is_laid_out_as_arms_by_method_and_k() -> None:
    found = searchable()
    assert [arm.label for arm in found.arms] == ["baseline", "draft-k3", "ngram-k3"]
    assert [arm.k for arm in found.arms] == [0, 3, 3]
    assert len({arm.family for arm in found.arms}) == 3
    assert {(place.traffic, place.load) for place in found.places} == {
        (traffic, load) for traffic in ("structured", "prose") for load in (1.0, 16.0)
    }
    assert found.launches["ngram-k3"] == ("r0-ngram-k3-tp1",)
    assert found.repeats == 1


def test_a_study_without_a_baseline_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one baseline"):
        searchable(lambda launch: None if launch.variant.name == "baseline" else launch)


def test_a_study_of_another_engine_is_refused_by_its_name() -> None:
    plan, costs, _ = costed(QUICK)
    study = plan.study.model_copy(update={"engine": "sglang"})
    with pytest.raises(InvalidInput, match="serves with sglang: measure all its arms with"):
        planned(Plan(study, plan.launches), costs)


def test_a_load_that_is_a_rate_is_refused_by_its_name() -> None:
    rate = LoadLevel(profile="poisson", value=8.0)

    def at_a_rate(launch: Launch) -> Launch:
        return replace(launch, cells=tuple(replace(cell, level=rate) for cell in launch.cells))

    with pytest.raises(InvalidInput, match="poisson8"):
        searchable(at_a_rate)


def test_an_arm_that_is_not_measured_everywhere_is_refused_by_its_name() -> None:
    def without_prose(launch: Launch) -> Launch:
        if launch.variant.name != "draft-k3":
            return launch
        return replace(launch, cells=tuple(c for c in launch.cells if c.dataset != "prose"))

    with pytest.raises(
        InvalidInput, match="draft-k3 is not measured on prose at 1: leave `arms` out"
    ):
        searchable(without_prose)


def test_arms_of_one_method_whose_servers_are_started_otherwise_are_two_families() -> None:
    plan, costs, _ = costed(QUICK)
    (draft,) = (one for one in plan.launches if one.variant.name == "draft-k3")
    engine_args = draft.variant.engine_args | {"max-num-seqs": 64}
    large = draft.variant.model_copy(update={"name": "large-k3", "engine_args": engine_args})
    other = replace(draft, variant=large, launch_id="r0-large-k3-tp1")
    found = planned(Plan(plan.study, (*plan.launches, other)), costs)
    mine = {arm.label: arm.family for arm in found.arms}
    assert mine["draft-k3"] != mine["large-k3"]
    assert config_of(mine["draft-k3"]) == config_of(mine["large-k3"])


def test_results_that_were_measured_otherwise_are_not_searched_on(tmp_path: Path) -> None:
    """Whoever edits the study, or upgrades the engine, would race new launches against old ones."""
    study = str(ROOT / "studies" / "laptop-lab-quick.yaml")
    said = told("plan", study)
    place = tmp_path / said["study"] / said["launches"][0]["cells"][0]
    place.mkdir(parents=True)
    text = {
        "status": "good",
        "environment": {"software": {"engine": "vllm", "engine_version": "0.1"}},
    }
    (place / "record.json").write_text(json.dumps(text))
    result = run("search", study, "--results", str(tmp_path), "--dry-run")
    assert isinstance(result.exception, RunnerError | InvalidInput)
    assert "engine_version" in str(result.exception)
    assert "search into another folder of results" in str(result.exception)
    assert told("plan", study)["unlike"] == []


def test_what_failed_is_counted_once_for_each_launch_and_attempt(tmp_path: Path) -> None:
    for load, begin, end, attempt in ((1, 0, 5, 1), (4, 0, 5, 1), (4, 10, 13, 2)):
        place = tmp_path / "draft" / "tp1" / "code" / f"c{load}-r0.failed-{attempt}"
        place.mkdir(parents=True)
        said = {"launch": "r0-draft", "started_at": f"2026-11-25T00:{begin:02d}:00+00:00",
                "ended_at": f"2026-11-25T00:{end:02d}:00+00:00"}  # fmt: skip
        (place / "record.json").write_text(json.dumps(said))
    assert lost_min(tmp_path) == pytest.approx(8)


def test_what_comes_next_is_told_without_measuring(tmp_path: Path) -> None:
    asked = ("search", str(ROOT / "studies" / "laptop-lab-search.yaml"), "--results", str(tmp_path))
    found = told(*asked, "--dry-run")
    (first,) = found["next"]
    assert (first["launch"], first["arm"], first["why"]) == (
        "r0-baseline-tp1",
        "baseline",
        "screen",
    )
    assert first["minutes"] > 0
    printed = run(*asked, "--dry-run").stdout
    assert "Next: r0-baseline-tp1, everywhere" in printed
    assert "in the order in which they are chosen" not in printed


def test_a_slip_in_the_slo_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    study = str(ROOT / "studies" / "laptop-lab-quick.yaml")
    result = run("search", study, "--results", str(tmp_path), "--slo", "ttft:p95<fast", "--dry-run")
    assert isinstance(result.exception, InvalidInput)
    assert "ttft:p95<fast" in str(result.exception)


def test_the_gate_sees_also_arms_that_an_earlier_command_measured(tmp_path: Path) -> None:
    place = SearchTask(Path("s.yaml"), tmp_path, check="false")
    for arm in ("baseline", "draft"):
        drop = place.results / "mine" / arm / "tp1" / "code" / "c1-r0"
        drop.mkdir(parents=True)
        (drop / "record.json").write_text("{}")
    arms = (SearchArm("baseline", "", 0), SearchArm("draft", "{}", 1))
    _check_arms(place, SearchPlan("mine", arms, (), {}, 1.0))
    (out,) = refused(place.results / "mine", "false")
    assert out.arm == "draft"


def test_a_budget_too_small_is_refused_with_the_least_that_would_do(tmp_path: Path) -> None:
    study = str(ROOT / "studies" / "laptop-lab-quick.yaml")
    result = run("search", study, "--results", str(tmp_path), "--dry-run", "--budget", "1min")
    assert isinstance(result.exception, InvalidInput)
    assert "the least that would do is about" in str(result.exception)


def test_a_budget_of_money_needs_a_price(tmp_path: Path) -> None:
    study = str(ROOT / "studies" / "laptop-lab-quick.yaml")
    result = run("search", study, "--results", str(tmp_path), "--dry-run", "--budget", "5usd")
    assert isinstance(result.exception, InvalidInput)
    assert "needs the price of an hour" in str(result.exception)


def test_money_buys_minutes_by_the_price_of_the_study(tmp_path: Path) -> None:
    study = tmp_path / "priced.yaml"
    text = (ROOT / "studies" / "laptop-lab-search.yaml").read_text()
    study.write_text(f"{text}price: {{usd_per_hour: 6.0, gpus_per_instance: 1}}\n")
    asked = ("search", str(study), "--results", str(tmp_path), "--dry-run", "--json")
    (told_,) = json.loads(run(*asked, "--budget", "50usd").stdout)["searches"]
    assert told_["terms"]["budget_min"] == pytest.approx(500)
    assert told_["usd"] == 0


def test_study_and_replay_exclude_each_other() -> None:
    assert run("search").exit_code == 2
    assert run("search", "study.yaml").exit_code == 2
    assert run("search", "study.yaml", "--results", "x", "--replay", "y").exit_code == 2


@pytest.mark.parametrize(
    ("where", "status", "said"),
    [
        ("local", 1, "results/mine/logs what its server said. Mend it"),
        ("slurm", 1, "r0-k3 failed on slurm"),
        ("ray", 0, "ended on ray without an error, and no result"),
    ],
)  # fmt: skip
def test_a_launch_that_left_nothing_says_where_to_look_and_what_to_do_next(
    where: str, status: int, said: str
) -> None:
    told_ = nothing_left(
        SearchTask(Path("s.yaml"), Path("results"), where), "mine", "r0-k3", status
    )
    assert said in told_
    assert ("draftboard cluster logs s.yaml r0-k3 --results results" in told_) == (where != "local")
    assert ("draftboard collect FOLDER --results results" in told_) == (status == 0)
    assert told_.endswith("the same command goes on from here and measures only what is missing.")


def searched(study: SmallStudy, *more: str) -> "subprocess.CompletedProcess[str]":
    """A search to its end; it starts up to ten servers, one after the other."""
    done = subprocess.run(
        [*command(study), *more], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=4 * PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def command(study: SmallStudy) -> list[str]:
    asked = ["search", str(study.path), "--results", str(study.results), "--stake", "60%"]
    return [*PROGRAM, *asked, "--warehouse", str(study.results / ".search"), "--json"]


@pytest.mark.slow
def test_a_search_side_by_side_that_is_killed_goes_on_and_measures_nothing_twice(
    tmp_path: Path,
) -> None:
    study = small_study(tmp_path, repeats=2)
    beside = ("--parallel", "2")
    first = subprocess.Popen([*command(study), *beside], cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: study.starts() > 0, "the first server")
    first.send_signal(signal.SIGINT)
    first.wait(PATIENCE_S)
    assert first.returncode == 128 + signal.SIGINT
    wait_for(lambda: not study.running(), "nothing is left")
    done = searched(study, *beside)
    (told_,) = json.loads(done.stdout)["searches"]
    assert {step["arm"] for step in told_["steps"]} == {"baseline", "draft"}
    assert "Beside it: r0-draft" in done.stderr
    starts = study.starts()
    cells = sorted(study.results.glob("small/*/tp1/numbers/c*/record.json"))
    records = study.results.glob("small/*/tp1/*/c*@*/record.json")
    spans = sorted(
        (r["started_at"], r["ended_at"]) for r in map(json.loads, map(Path.read_text, records))
    )
    assert any(later[0] < earlier[1] for earlier, later in zip(spans, spans[1:], strict=False))
    searched(study)
    assert study.starts() == starts
    assert sorted(study.results.glob("small/*/tp1/numbers/c*/record.json")) == cells
    assert len(told_["steps"]) == len(cells)


@pytest.mark.slow
def test_an_arm_that_never_starts_is_out_with_its_reason_and_costs_nothing_more(
    tmp_path: Path,
) -> None:
    study = small_study(tmp_path, repeats=2)
    asked, script = tmp_path / "asked", tmp_path / "bin" / "vllm"
    broken = f'case "$*" in *speculative-config*) echo >> "{asked}"; exit 3;; esac'
    script.write_text(script.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{broken}\n"))
    done = searched(study)
    assert "out: numbers at 2: The server ended with status 3" in done.stderr
    (told_,) = json.loads(done.stdout)["searches"]
    assert {place["arm"] for place in told_["found"]} == {"baseline"}
    assert not told_["decided"]
    assert told_["headline"].startswith("Nothing to decide")
    assert told_["out"][0].startswith("draft (numbers at 2")
    tries = asked.read_text()
    assert len(tries) == 2  # `retries` of the study is 1
    (again,) = json.loads(searched(study).stdout)["searches"]
    assert (again["found"], again["out"]) == (told_["found"], told_["out"])
    assert asked.read_text() == tries


@pytest.mark.slow
def test_a_winner_is_proven_against_the_baseline_and_the_runner_up_in_fresh_launches(
    tmp_path: Path,
) -> None:
    draft = {"method": "draft_model", "model": "org/draft"}
    arms = [{"name": "baseline"},
            {"name": "draft", "speculative_config": draft, "num_speculative_tokens": [1, 3]}]  # fmt: skip
    # On a busy machine GuideLLM loses requests; an arm that is out for it would be no runner-up.
    limits = {"server_ready_s": 120, "cell_s": 300, "retries": 6}
    study = small_study(
        tmp_path, "--fake-delay 0.1 --fake-acceptance 0.9", repeats=3, arms=arms, limits=limits
    )
    gate = tmp_path / "gate"
    gate.write_text(f'#!/bin/sh\necho "$1" >> "{tmp_path}/asked"\n')
    gate.chmod(0o755)
    (told_,) = json.loads(searched(study, "--check", str(gate)).stdout)["searches"]
    assert (told_["decided"], told_["out"]) == (True, [])
    asked = [Path(line).name for line in (tmp_path / "asked").read_text().splitlines()]
    assert len(asked) == len(set(asked))
    assert set(asked[:-1]) <= {"draft-k1", "draft-k3"}
    assert asked[-1].startswith("winner-")
    (place,), (beside,) = told_["proof"]["places"], told_["proof"]["ahead"]
    assert {told_["proof"]["words"], told_["proof"]["rival"]} == {"K=1", "K=3"}
    assert (place["load"], beside["load"]) == (2, 2)
    assert place["low"] <= place["proven"] <= place["high"]
    assert beside["low"] <= beside["proven"] <= beside["high"]
    # An attempt that GuideLLM lost a request of lies beside the one that took its place.
    fresh = sorted(study.results.glob("small-proof/*/tp1/numbers/c*@*/record.json"))
    assert len({path.parts[-5] for path in fresh}) == 3
    assert len(fresh) == 6
    starts = study.starts()
    assert json.loads(searched(study).stdout)["searches"][0]["proof"] == told_["proof"]
    assert study.starts() == starts


@pytest.mark.slow
def test_an_arm_that_answers_otherwise_is_out_and_costs_no_further_minute(tmp_path: Path) -> None:
    study = small_study(tmp_path, "--fake-unchecked", repeats=2)
    (told_,) = json.loads(searched(study).stdout)["searches"]
    assert [step["arm"] for step in told_["steps"]] == ["baseline", "draft"]
    assert told_["candidates"][1]["state"].startswith(
        "out: it does not answer as the baseline at temperature 0: 10 of 10 answers differ"
    )
    assert {place["arm"] for place in told_["found"]} == {"baseline"}
    (one,) = from_texts(read_searches(study.results / ".search"))
    assert (one.phase, one.told.candidates[1].state) == ("over", told_["candidates"][1]["state"])
    taken = subprocess.run(
        [*command(study), "--any-outputs", "--dry-run"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "does not answer" not in taken.stderr
