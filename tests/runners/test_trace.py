"""Traces: what is read, how fast it is replayed, and what no trace may hold."""

import json
from pathlib import Path

import pytest

from runners.planning.loads import Arrival, replayed
from runners.texts.prompts import arranged
from warehouse.errors import StudyError

BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118.5,GPT-4,417,0,417,API log
"""


def put(folder: Path, name: str, *rows: dict[str, object] | str) -> Path:
    path = folder / name
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_burstgpts_seconds_and_tokens_are_read(tmp_path: Path) -> None:
    found = replayed(put(tmp_path, "burst.csv", BURSTGPT))
    assert found.arrivals == (Arrival(0, 472, 18), Arrival(40, 1087, 230), Arrival(113.5, 417, 0))
    assert found.lasts_s == 113.5


def test_mooncakes_milliseconds_are_seconds(tmp_path: Path) -> None:
    rows = [
        {"timestamp": at, "input_length": 655, "output_length": 52, "hash_ids": [46, 47]}
        for at in (0, 10535, 27482)
    ]
    found = replayed(put(tmp_path, "mooncake.jsonl", *rows))
    assert [one.at for one in found.arrivals] == [0, 10.535, 27.482]
    assert found.arrivals[0].output_tokens == 52


def test_a_trace_of_ones_own_needs_only_times(tmp_path: Path) -> None:
    found = replayed(put(tmp_path, "own.jsonl", {"timestamp": 3.5}, {"timestamp": 4}))
    assert found.arrivals == (Arrival(0), Arrival(0.5))


def test_it_is_replayed_faster_and_cut_off_in_the_time_of_the_replay(tmp_path: Path) -> None:
    path = put(tmp_path, "own.jsonl", *({"timestamp": at} for at in range(10)))
    assert [one.at for one in replayed(path, 2.0).arrivals] == [at / 2 for at in range(10)]
    assert [one.at for one in replayed(path, 2.0, seconds=1.5).arrivals] == [0, 0.5, 1.0]


def test_another_content_is_another_trace(tmp_path: Path) -> None:
    before = replayed(put(tmp_path, "own.jsonl", {"timestamp": 0})).digest
    assert replayed(put(tmp_path, "own.jsonl", {"timestamp": 0}, {"timestamp": 1})).digest != before


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"timestamp": 3}, {"timestamp": 2}], "goes back in time on line 2: 2 s after 3 s; sort"),
        ([{"timestamp": -1}], "negative time -1 on line 1"),
        ([{"timestamp": 0}, {"input_length": 3}], "no time on line 2"),
        ([{"timestamp": 0}, {"timestamp": None}], "no time on line 2"),
        ([{"timestamp": float("nan")}], "no time on line 1"),
        ([{"timestamp": 0, "input_length": -3}], "-3 tokens on line 1"),
        (["{"], "cannot be read"),
        (["[1]"], "line 1 is no object"),
        ([], "no requests"),
    ],
)
def test_what_cannot_be_replayed_is_said_in_a_sentence(
    tmp_path: Path, rows: list[dict[str, object] | str], said: str
) -> None:
    with pytest.raises(StudyError, match=said) as raised:
        replayed(put(tmp_path, "bad.jsonl", *rows))
    assert str(raised.value).count(".") <= 3


def test_a_trace_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="There is no trace"):
        replayed(tmp_path / "none.csv")


def test_a_stillness_that_fills_much_of_it_is_found(tmp_path: Path) -> None:
    times = [0, 1, 2, 500, 501]
    found = replayed(put(tmp_path, "own.jsonl", *({"timestamp": at} for at in times)))
    assert found.gap == (2, 498)
    # Ten times as fast it is under a minute, and nothing to speak of.
    assert replayed(tmp_path / "own.jsonl", 10.0).gap is None


def test_the_longest_prompt_goes_where_the_traces_was_the_longest() -> None:
    prompts = ["aaa", "a", "aaaa", "aa"]
    arrivals = [Arrival(at, tokens) for at, tokens in enumerate([900, 10, 20, 500])]
    assert arranged(prompts, arrivals) == ("aaaa", "a", "aa", "aaa")
    assert arranged(prompts, [Arrival(0), Arrival(1, 3), Arrival(2), Arrival(3)]) == tuple(prompts)
    assert arranged(prompts, []) == tuple(prompts)
