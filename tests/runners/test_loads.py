"""Loads of a study: their levels, what is sent at each, what a study may not ask."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runners.checks.doctor import run_check
from runners.measuring.guidellm import arrival_environment, command, load_request
from runners.measuring.record import study_facts
from runners.planning.plan import (
    Plan,
    SweepEnds,
    doubts,
    ends_of_report,
    freeze,
    make_plan,
    refusals,
    unknown_sweeps,
    with_frozen_rates,
)
from runners.planning.study_file import Study, read_study
from runners.texts.prompts import prompt_sets, write
from tests.runners.test_doctor import GUIDELLM, situation
from warehouse.errors import RunnerError, StudyError
from warehouse.loads import Load, load_of

StudyOf = Callable[..., Study]
GENERATED = {"name": "code", "generator": {"kind": "code"}, "prompts_per_level": 20}


@pytest.fixture
def loaded(study_of: StudyOf) -> Callable[..., Study]:
    """A study of these loads instead of two concurrencies."""

    def make(load: dict[str, object], **changes: object) -> Study:
        return study_of(concurrency=None, load=load, **changes)

    return make


@pytest.fixture
def trace(tmp_path: Path) -> str:
    rows = [(0, 500, 9), (0.5, 20, 0), (1.5, 90, 400)]
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    lines += [f"{at},m,{i},{o},{i + o},API log" for at, i, o in rows]
    (tmp_path / "burst.csv").write_text("\n".join(lines) + "\n")
    return "burst.csv"


def keys(plan: Plan) -> list[str]:
    return [cell.key.removeprefix("baseline/tp1/code/") for cell in plan.launches[0].cells]


def test_concurrency_is_short_for_a_load_and_plans_the_same_cells(
    study_of: StudyOf, loaded: Callable[..., Study]
) -> None:
    assert make_plan(study_of()).cells == make_plan(loaded({"concurrent": [1, 4]})).cells


def test_every_kind_of_load_is_a_level_with_a_path_of_its_own(
    loaded: Callable[..., Study], trace: str
) -> None:
    study = loaded(
        {
            "concurrent": [2], "constant": [0.5, 4], "poisson": [4], "sweep": 2,
            "replay": trace, "speed": 2, "throughput": True,
        }
    )  # fmt: skip
    plan = make_plan(study)
    assert keys(plan) == [
        "c2-r0", "constant0.5-r0", "constant4-r0", "poisson4-r0", "sweep1-r0", "sweep2-r0",
        "trace-burst-2x-r0", "throughput-r0",
    ]  # fmt: skip
    assert [cell.prompts for cell in plan.launches[0].cells] == [20] * 6 + [3, 20]
    assert [cell.level.as_load for cell in plan.launches[0].cells] == [
        Load("concurrency", 2), Load("constant", 0.5), Load("constant", 4), Load("poisson", 4),
        None, None, Load("trace", None, "burst.csv at 2x"), Load("unbounded", None),
    ]  # fmt: skip


def test_a_rate_is_offered_for_so_many_seconds(loaded: Callable[..., Study]) -> None:
    plan = make_plan(loaded({"constant": [0.5, 4.1], "seconds": 30}))
    assert [cell.prompts for cell in plan.launches[0].cells] == [15, 123]


def test_the_record_says_the_load_in_words_that_pair(
    loaded: Callable[..., Study], trace: str
) -> None:
    plan = make_plan(loaded({"poisson": [4], "replay": trace}))
    said = [study_facts(plan.study, cell) for cell in plan.launches[0].cells]
    loads = [load_of(*(one[n] for n in ("load_profile", "concurrency", "rate", "trace")))
             for one in said]  # fmt: skip
    assert loads == [Load("poisson", 4), Load("trace", None, "burst.csv")]


def test_another_trace_speed_or_rate_is_another_cell_and_other_levels_are_not(
    loaded: Callable[..., Study], trace: str, tmp_path: Path
) -> None:
    def asked(load: dict[str, object]) -> list[str]:
        return [c.fingerprint for c in make_plan(loaded(load)).launches[0].cells]

    (before,) = asked({"replay": trace})
    assert asked({"replay": trace, "speed": 2}) != [before]
    assert asked({"concurrent": [3], "replay": trace})[1] == before
    path = tmp_path / trace
    path.write_text(path.read_text().replace("0.5,m", "0.75,m"))
    assert asked({"replay": trace}) != [before]
    assert len({*asked({"constant": [1, 2]}), *asked({"poisson": [1, 2]})}) == 4


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ({"constant": [0]}, "greater than 0"),
        ({"poisson": [-1]}, "greater than 0"),
        ({"poisson": [1e9]}, "less than or equal to 10000"),
        ({"poisson": [2, 2]}, "named twice"),
        ({}, "no load is named"),
        ({"concurrent": [1], "speed": 3}, "speed belongs to a trace"),
        ({"concurrent": [1], "seconds": 3}, "seconds belongs to"),
        ({"replay": "x.csv", "speed": 0}, "greater than 0"),
        ({"sweep": 0}, "greater than or equal to 1"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused_with_its_line(
    loaded: Callable[..., Study], load: dict[str, object], said: str
) -> None:
    with pytest.raises(StudyError, match=rf"line \d+: load.*{said}"):
        loaded(load)


def test_a_study_gives_its_load_in_one_way(study_of: StudyOf) -> None:
    for changes in ({"load": {"poisson": [1]}}, {"concurrency": None}):
        with pytest.raises(StudyError, match="concurrency or as load, one of the two"):
            study_of(**changes)


def test_a_rate_needs_a_number_of_prompts_or_seconds(loaded: Callable[..., Study]) -> None:
    by_level = [{**GENERATED, "prompts_per_level": {1: 5}}]
    with pytest.raises(StudyError, match="no prompts_per_level for 2/s; write one number"):
        loaded({"constant": [2]}, datasets=by_level)
    made = loaded({"concurrent": [1], "constant": [2], "seconds": 4}, datasets=by_level)
    assert [cell.prompts for cell in make_plan(made).launches[0].cells] == [5, 8]


def test_a_traces_file_says_when_each_prompt_is_sent_and_how_long_its_answer_may_be(
    loaded: Callable[..., Study], trace: str, tmp_path: Path
) -> None:
    study = loaded({"replay": trace}, request={"max_tokens": 64})
    found = prompt_sets(study, "code")["trace-burst"]
    write(found, tmp_path / "p.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [row["relative_timestamp"] for row in rows] == [0, 0.5, 1.5]
    assert [row["output_tokens_count"] for row in rows] == [9, 0, 64]
    lengths = [len(row["prompt"]) for row in rows]
    assert lengths[0] >= lengths[2] >= lengths[1]
    assert {row["prompt"] for row in rows} == set(found.prompts)


def test_too_few_prompts_are_sent_again_only_where_the_study_says_so(
    loaded: Callable[..., Study], tmp_path: Path
) -> None:
    lines = [json.dumps({"prompt": f"Question {number}?"}) for number in range(7)]
    (tmp_path / "few.jsonl").write_text("\n".join(lines))
    few = {"name": "few", "file": "few.jsonl", "prompts_per_level": 20}
    with pytest.raises(StudyError, match="7 different prompts"):
        prompt_sets(loaded({"constant": [1]}, datasets=[few]), "few")
    study = loaded({"constant": [1]}, datasets=[few | {"reuse": True}])
    texts = [*prompt_sets(study, "few")["constant1"].prompts]
    assert (len(texts), len(set(texts)), texts[:7] == texts[7:14]) == (20, 7, True)
    assert any("more than once" in said for said in doubts(make_plan(study)))


def test_categories_and_lengths_are_datasets_of_their_own(
    loaded: Callable[..., Study], tmp_path: Path
) -> None:
    rows = [
        {"turns": [kind[0] * length, "and then?"], "category": kind}
        for kind in ("coding", "role play")
        for length in (*range(5, 15), *range(105, 115))
    ]
    (tmp_path / "speed.jsonl").write_text("\n".join(map(json.dumps, rows)))
    speed = {
        "name": "speed", "file": "speed.jsonl", "field": "turns.0", "prompts_per_level": 4,
        "categories": ["coding", "role play"], "length_bins": [20, 200],
    }  # fmt: skip
    study = loaded({"concurrent": [1]}, datasets=[speed])
    names = [part.name for part in study.measured_on]
    assert names == ["speed-coding-20c", "speed-coding-200c",
                     "speed-role_play-20c", "speed-role_play-200c"]  # fmt: skip
    told = {name: prompt_sets(study, name)["c1"].prompts for name in names}
    assert {name: {one[0] for one in told[name]} for name in names} == {
        names[0]: {"c"}, names[1]: {"c"}, names[2]: {"r"}, names[3]: {"r"},
    }  # fmt: skip
    assert all(len(one) <= 20 for one in told[names[0]])
    assert all(len(one) > 100 for one in told[names[3]])
    assert {cell.dataset for cell in make_plan(study).cells} == set(names)


def test_a_generator_makes_prompts_of_each_length(loaded: Callable[..., Study]) -> None:
    made = {**GENERATED, "prompts_per_level": 5, "length_bins": [100, 300]}
    study = loaded({"concurrent": [1]}, datasets=[made])
    for part, least, most in zip(study.measured_on, (1, 101), (100, 300), strict=True):
        texts = [*prompt_sets(study, part.name)["c1"].prompts]
        assert all(least <= len(text) <= most for text in texts)


def test_an_old_release_is_said_to_replay_no_trace(
    loaded: Callable[..., Study], trace: str
) -> None:
    plan = make_plan(loaded({"replay": trace, "poisson": [1]}))
    assert [said[:34] for said in refusals(plan, "0.5.3")] == ["GuideLLM 0.5.3 replays no trace; i"]
    assert refusals(plan, "0.8.1") == refusals(plan, None) == []


def test_an_old_release_is_said_to_send_no_conversations(study_of: StudyOf) -> None:
    talks = {"name": "talks", "file": "t.jsonl", "field": "talk", "conversations": True}
    plan = make_plan(study_of(datasets=[talks]))
    assert [said[:43] for said in refusals(plan, "0.7.4")] == [
        "GuideLLM 0.7.4 sends no conversations; inst"
    ]
    assert refusals(plan, "0.8.1") == refusals(plan, None) == []
    with pytest.raises(RunnerError, match="sends no conversations"):
        profiles(plan, "0.6.1")


def test_a_load_that_lasts_longer_than_a_cell_may_is_refused(
    loaded: Callable[..., Study], trace: str, tmp_path: Path
) -> None:
    limits = {"cell_s": 1.0}
    said = refusals(make_plan(loaded({"replay": trace, "constant": [2]}, limits=limits)), "0.8.1")
    assert "code at 2/s lasts 10 s, longer than a cell may take (1 s); lower" in said[0]
    assert "code at trace burst.csv lasts 2 s, longer" in said[1]
    assert refusals(make_plan(loaded({"replay": trace, "speed": 2}, limits=limits)), "0.8.1") == []


def test_a_still_trace_and_an_endless_answer_are_doubts(
    loaded: Callable[..., Study], tmp_path: Path
) -> None:
    (tmp_path / "still.jsonl").write_text('{"timestamp": 0}\n{"timestamp": 900}\n')
    still = doubts(make_plan(loaded({"replay": "still.jsonl"})))
    assert [said[:60] for said in still] == [
        "The trace still.jsonl sends nothing for 900 s from 0 s on, i"
    ]
    endless = loaded({"constant": [1]}, request={"max_tokens": None})
    assert [said[:40] for said in doubts(make_plan(endless))] == [
        "Neither max_tokens nor max-model-len lim"
    ]


def profiles(plan: Plan, version: str) -> list[dict[str, object]]:
    found = []
    for cell in plan.launches[0].cells:
        argv = command(
            "g", version, load_request(plan.study, cell, "http://h", "p.jsonl", "out/r.json")
        )
        after = dict(zip(argv, argv[1:], strict=False))
        profile = after["--profile"]
        found.append(json.loads(profile) if profile.startswith("{") else
                     {"kind": profile, "rate": after["--rate"]})  # fmt: skip
    return found


def test_each_release_gets_its_own_profile(loaded: Callable[..., Study], trace: str) -> None:
    rates: dict[str, object] = {"constant": [2.5], "poisson": [4], "throughput": True}
    plan = make_plan(loaded(rates))
    assert profiles(plan, "0.5.3") == [
        {"kind": "constant", "rate": "2.5"}, {"kind": "poisson", "rate": "4"},
        {"kind": "throughput", "rate": "20"},
    ]  # fmt: skip
    assert profiles(make_plan(loaded({**rates, "replay": trace})), "0.8.1") == [
        {"kind": "constant", "rate": [2.5]}, {"kind": "poisson", "rate": [4.0]},
        {"kind": "replay", "time_scale": 1.0}, {"kind": "throughput", "max_concurrency": None},
    ]  # fmt: skip
    with pytest.raises(RunnerError, match="replays no trace"):
        profiles(make_plan(loaded({"replay": trace})), "0.6.1")


def test_a_traces_answers_are_not_forced_to_its_lengths(
    loaded: Callable[..., Study], trace: str
) -> None:
    plan = make_plan(loaded({"replay": trace, "constant": [1]}))
    bodies = [load_request(plan.study, cell, "u", "p", "r").sampling for cell in plan.cells]
    assert [body.get("ignore_eos") for body in bodies[:2]] == [None, False]


def test_arrivals_come_from_one_process_and_are_the_same_for_every_arm(
    loaded: Callable[..., Study],
) -> None:
    plan = make_plan(loaded({"poisson": [2], "constant": [2]}, repeats=2))
    asked = {cell.key: load_request(plan.study, cell, "u", "p", "r") for cell in plan.cells}
    seeds = {key: one.seed for key, one in asked.items() if "poisson" in key}
    assert {key[-1]: seed for key, seed in seeds.items()} == {"0": 0, "1": 1}
    assert {one.seed for key, one in asked.items() if "constant" in key} == {0}
    assert all(arrival_environment(one) for one in asked.values())
    closed = make_plan(loaded({"concurrent": [2]})).cells[0]
    assert arrival_environment(load_request(plan.study, closed, "u", "p", "r")) == {}


def report_of(path: Path, one: float, most: float) -> Path:
    ends = [{"metrics": {"requests_per_second": {"successful": {"mean": x}}}} for x in (one, most)]
    path.write_text(json.dumps({"benchmarks": ends}))
    return path


def test_a_sweeps_rates_are_frozen_and_the_same_for_every_arm(
    loaded: Callable[..., Study], tmp_path: Path
) -> None:
    study = loaded({"sweep": 3})
    assert [dataset.name for dataset, _ in unknown_sweeps(study, tmp_path)] == ["code"]
    assert {cell.level.rate for cell in make_plan(study).cells} == {None}
    found = ends_of_report(report_of(tmp_path / "r.json", 3.0, 9.0), "baseline", "s")
    freeze(study, tmp_path, "code", 1, found)

    plan = make_plan(loaded({"sweep": 3}), tmp_path)
    assert unknown_sweeps(study, tmp_path) == []
    assert [[cell.level.rate for cell in launch.cells] for launch in plan.launches] == [
        [5.0, 7.0, 9.0]
    ] * 3
    assert plan.cells[0].level.as_load == Load("constant", 5.0)
    assert len({cell.fingerprint for cell in plan.cells}) == 9


def test_a_sweep_without_room_and_damaged_rates_are_said(
    loaded: Callable[..., Study], tmp_path: Path
) -> None:
    with pytest.raises(RunnerError, match="nothing to sweep"):
        ends_of_report(report_of(tmp_path / "r.json", 3.0, 2.9), "baseline", "s")
    with pytest.raises(RunnerError, match="no report with its two ends"):
        ends_of_report(tmp_path / "none.json", "baseline", "s")
    study = loaded({"sweep": 3})
    freeze(study, tmp_path, "code", 1, SweepEnds(1, 2, "baseline", "s"))
    (path,) = tmp_path.rglob("code-tp1.rates")
    path.write_text("{")
    with pytest.raises(RunnerError, match="put the file back"):
        with_frozen_rates(study, tmp_path)


def test_an_alias_bomb_ends_in_a_sentence(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    for name, text in (("bomb", "\n".join(lines)), ("itself", "a: &a [*a]"), ("deep", "[" * 5000)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        with pytest.raises(StudyError, match="aliases"):
            read_study(path)


def test_the_doctor_says_what_cannot_be_sent_and_how_to_mend_it(
    loaded: Callable[..., Study], trace: str
) -> None:
    old = replace(GUIDELLM, versions={"guidellm": "0.5.3"})
    study = loaded({"replay": trace}, request={"max_tokens": None}, limits={"cell_s": 1.0})
    said = {
        one.said: (one.status, one.fix)
        for one in run_check("loads", situation(study, guidellm=old))
    }
    assert [(status, sentence[:30]) for sentence, (status, _) in said.items()] == [
        ("blocker", "GuideLLM 0.5.3 replays no trac"),
        ("blocker", "code at trace burst.csv lasts "),
        ("warning", "Neither max_tokens nor max-mod"),
    ]
    assert [str(fix)[:20] for _, fix in said.values()] == [
        "Install 0.8.1 and na", "Raise speed, cut it ", "Set one of them unle",
    ]  # fmt: skip
    assert list(run_check("loads", situation(loaded({"poisson": [1]})))) == []
