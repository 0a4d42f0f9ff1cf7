"""Sessions of a study: what of a talk is sent, how many requests they make, and what cannot be sent as sessions."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from draftboard import cli
from ingest.clean import flatten
from runners.checks.doctor import run_check
from runners.measuring.guidellm import command, load_request
from runners.measuring.record import write_keepsakes
from runners.planning.estimate import Assumed, RecordedDurations, estimate
from runners.planning.plan import make_plan, refusals
from runners.planning.study_file import Study
from runners.surroundings.layout import Layout
from runners.texts.conversations import prompt_hashes
from runners.texts.prompts import PromptFiles, few_prompts, prompt_sets, sessions_of
from tests.runners.test_doctor import GUIDELLM, situation
from warehouse.contract import hash_text
from warehouse.errors import RunnerError, StudyError

StudyOf = Callable[..., Study]


def talk(number: int, turns: int) -> list[dict[str, str]]:
    """So many turns of a user, each with the answer that the dataset has."""
    said = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        said += [{"role": "user", "content": f"{number}.{turn}?"},
                 {"role": "assistant", "content": f"That of the dataset to {number}.{turn}."}]  # fmt: skip
    return said


@pytest.fixture
def talked(tmp_path: Path, study_of: StudyOf) -> Callable[..., Study]:
    """A study of sessions over these talks."""

    def make(talks: list[Any], more: dict[str, Any] | None = None, **changes: Any) -> Study:
        lines = "".join(json.dumps({"talk": one}) + "\n" for one in talks)
        (tmp_path / "talks.jsonl").write_text(lines)
        said = {"name": "talks", "file": "talks.jsonl", "field": "talk", "sessions": {"turns": 2},
                "prompts_per_level": 3} | (more or {})  # fmt: skip
        return study_of(**{"datasets": [said], "concurrency": [1]} | changes)

    return make


def test_a_session_is_what_its_user_says_without_the_datasets_answers(
    talked: Callable[..., Study], tmp_path: Path
) -> None:
    study = talked([talk(number, 3) for number in range(4)] + [talk(9, 1)])
    plan = make_plan(study)
    (cell, *_) = plan.cells
    file = PromptFiles(study, Layout(tmp_path / "results", "tiny")).of(cell)
    rows = [json.loads(line) for line in file.path.read_text().splitlines()]
    for row in rows:
        number = row["turn_0"].partition(".")[0]
        assert row["turn_1"] == f"{number}.1?"
        # Of three turns two were asked for; the talk of one turn is left out.
        assert sorted(row) == ["prompt", "system_0", "turn_0", "turn_1"]
    assert len(rows) == 3
    assert "That of the dataset" not in file.path.read_text()


def test_a_list_of_questions_and_a_generator_give_sessions_too(
    talked: Callable[..., Study], study_of: StudyOf
) -> None:
    (questions,) = prompt_sets(
        talked([["Why?", "And then?"]], {"prompts_per_level": 1}), "talks"
    ).values()
    assert [one["content"] for one in json.loads(questions.prompts[0])] == ["Why?", "And then?"]
    made = {"name": "code", "generator": {"kind": "code", "max_chars": 200}, "sessions": {"turns": 3},
            "prompts_per_level": 5}  # fmt: skip
    (found,) = prompt_sets(study_of(datasets=[made], concurrency=[1]), "code").values()
    turns = [one["content"] for text in found.prompts for one in json.loads(text)]
    assert len(turns) == len(set(turns)) == 15
    assert max(map(len, turns)) <= 200


def test_each_turn_is_known_by_what_the_user_said_until_then(talked: Callable[..., Study]) -> None:
    (found,) = prompt_sets(talked([talk(1, 2)], {"prompts_per_level": 1}), "talks").values()
    (text,) = found.prompts
    said = [one for one in talk(1, 2) if one["role"] != "assistant"]
    assert prompt_hashes(text, "chat_completions", "session") == [
        hash_text(flatten(said[:2]) or ""), hash_text(flatten(said) or ""),
    ]  # fmt: skip


def test_think_time_stands_after_each_turn_but_the_last(
    talked: Callable[..., Study], tmp_path: Path
) -> None:
    slow = {"sessions": {"turns": 3, "think_time_s": 1.5}}
    study = talked([talk(number, 3) for number in range(3)], slow)
    plan = make_plan(study)
    file = PromptFiles(study, Layout(tmp_path / "results", "tiny")).of(plan.cells[0])
    row = json.loads(file.path.read_text().splitlines()[0])
    assert {n: v for n, v in row.items() if "delay" in n} == {
        "requeue_delay_0": 1.5, "requeue_delay_1": 1.5,
    }  # fmt: skip
    fast = make_plan(talked([talk(number, 3) for number in range(3)], {"sessions": {"turns": 3}}))
    both = [estimate(one, RecordedDurations(), Assumed()).hours for one in (plan, fast)]
    # Three arms with one level each, and two pauses in the last session of each.
    assert 3600 * (both[0] - both[1]) == pytest.approx(3 * 2 * 1.5)
    assert plan.cells[0].fingerprint != fast.cells[0].fingerprint


def test_a_plan_says_how_many_requests_sessions_make(talked: Callable[..., Study]) -> None:
    study = talked([talk(number, 3) for number in range(12)], {"sessions": {"turns": 3}, "prompts_per_level": 4},
                   concurrency=[1, 8])  # fmt: skip
    plan = make_plan(study)
    assert {cell.prompts for cell in plan.cells} == {12}
    assert sessions_of(plan) == [
        f"talks at concurrency {n}: 4 sessions of 3 turns, 12 requests" for n in (1, 8)
    ]
    # No more requests are in flight than there are sessions.
    assert "fewer prompts than requests in flight" in few_prompts(plan)[0]
    assert load_request(study, plan.cells[0], "http://x", "p", "r").n_requests == 12


def test_guidellm_is_told_where_turns_and_pauses_stand(talked: Callable[..., Study]) -> None:
    study = talked([talk(1, 2)])
    request = load_request(study, make_plan(study).cells[0], "http://x", "p.jsonl", "r.json")
    words = command("guidellm", "0.8.1", request)
    mapper = json.loads(words[words.index("--data-column-mapper") + 1])
    assert mapper["column_mappings"] == {
        "text_column": "turn", "prefix_column": "system", "requeue_delay_column": "requeue_delay",
    }  # fmt: skip
    for old in ("0.5.3", "0.7.4"):
        with pytest.raises(RunnerError, match=rf"GuideLLM {old} sends no sessions; install 0.8.1"):
            command("guidellm", old, request)
        (said,) = refusals(make_plan(study), old)
        assert "or leave sessions out of the dataset and name its first turn" in said
        finding, *_ = run_check(
            "loads", situation(study, guidellm=replace(GUIDELLM, versions={"guidellm": old}))
        )
        assert (finding.status, finding.said) == ("blocker", f"GuideLLM {old} sends no sessions.")


@pytest.mark.parametrize(
    ("turns", "wanted", "said"),
    [
        (1, 2, "no conversation of its 3 rows has 2 turns of a user, the longest has 1; give conversations of at "
               "least two turns"),
        (2, 3, "no conversation of its 3 rows has 3 turns of a user, the longest has 2; write sessions: {turns: 2}"),
        (0, 2, "none of its 3 rows passes the filter and has a conversation"),
    ],
)  # fmt: skip
def test_a_file_without_such_turns_is_refused_by_plan_and_doctor(
    talked: Callable[..., Study], tmp_path: Path, turns: int, wanted: int, said: str
) -> None:
    study = talked([talk(number, turns) for number in range(3)], {"sessions": {"turns": wanted}})
    with pytest.raises(StudyError) as refused:
        sessions_of(make_plan(study))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    finding, *_ = run_check("datasets", situation(study))
    assert (finding.status, finding.said) == (
        "blocker",
        str(refused.value).partition("; ")[0] + ".",
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"concurrency": None, "load": {"poisson": [2]}}, "whose turns wait for answers and come at no rate"),
        ({"concurrency": None, "load": {"concurrent": [1], "sweep": 2}}, "instead of rate 1 of the sweep"),
        ({"request": {"format": "text_completions"}}, "holds sessions, which only chats can be"),
        ({"more": {"conversations": True}}, "sessions stand alone: leave conversations and category out"),
        ({"more": {"category": "kind"}}, "sessions stand alone: leave conversations and category out"),
        ({"more": {"sessions": {"turns": 1}}}, "greater than or equal to 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_as_sessions_is_refused_with_the_study(
    talked: Callable[..., Study], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(StudyError, match=said):
        talked([talk(1, 2)], **changes)


def test_a_drop_keeps_no_texts_of_a_session_unless_asked(
    talked: Callable[..., Study], tmp_path: Path
) -> None:
    study = talked([talk(number, 2) for number in range(9)])
    file = PromptFiles(study, Layout(tmp_path / "results", "tiny")).of(make_plan(study).cells[0])
    for keep in (False, True):
        write_keepsakes(tmp_path, study, "", file, keep)
        kept = json.loads((tmp_path / "prompts.json").read_text())
        assert kept["set"] == file.hash
        assert {name for row in kept["prompts"] for name in row} == {"hash"} | (
            {"prompt"} if keep else set()
        )


def test_the_command_counts_and_refuses_sessions(
    talked: Callable[..., Study], tmp_path: Path
) -> None:
    def planned(*more: str) -> Any:
        path = next(tmp_path.glob("*.yaml"))
        return CliRunner().invoke(cli, ["plan", str(path), "--results", str(tmp_path / "r"), *more])

    talked([talk(number, 2) for number in range(3)])
    assert "talks at concurrency 1: 3 sessions of 2 turns, 6 requests" in planned().output
    assert json.loads(planned("--json").stdout)["sessions"] == [
        "talks at concurrency 1: 3 sessions of 2 turns, 6 requests"
    ]
    talked([talk(1, 1)])
    assert "give conversations of at least two turns" in str(planned().exception)
