"""Sessions: turns are told apart where a report says them, and each is compared with the same turn of another arm."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.commands.asking import refused, run, told
from tests.commands.sessions import FIRST, SESSIONS, Talked, write
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

TTFT = ("ttft", "ttft_first_turn", "ttft_later_turns")


class Kept:
    """A place with results and a warehouse."""

    def __init__(self, place: Path) -> None:
        self.place, self.results = place, place / "results"
        self.root = ("--warehouse", str(place / "warehouse"))

    def take_in(self, study: Talked) -> None:
        write(study, self.results)
        taken = json.loads(run("ingest", str(self.results), *self.root, "--json").stdout)
        assert taken["rejected"] == []

    def turns(self) -> dict[str, Any]:
        (setting,) = told("compare", "--by", "turn", *self.root)["settings"]
        (at,) = setting["loads"]
        return dict(at)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_each_turn_is_compared_with_the_same_turn_of_the_reference(kept: Kept) -> None:
    kept.take_in(Talked())
    at = kept.turns()
    assert [one["kind"] for one in at["arms"]] == ["turn 1", "turn 2", "turn 3"]
    for place, one in enumerate(at["arms"]):
        reference, own = FIRST[0][place], FIRST[3][place]
        assert one["reference_ttft_ms"] == pytest.approx(1000 * reference, rel=0.03)
        assert one["ttft_ms"] == pytest.approx(1000 * own, rel=0.03)
        assert one["ttft"]["improvement"] == pytest.approx(1 - own / reference, abs=0.04)
        assert one["itl"]["improvement"] == pytest.approx(0.5, abs=0.03)
        assert (one["itl"]["word"], one["tpot"]) == ("gain", None)
        assert (one["requests"], one["ttft"]["launches"]) == (3 * SESSIONS, 3)
    assert [one["ttft"]["word"] for one in at["arms"][1:]] == ["gain", "gain"]
    assert at["arms"][0]["ttft"]["word"] != "gain"
    assert at["prefix_hits"] == {"baseline": 0.5, "draft_model K=3": 0.5}


def test_the_words_say_what_of_a_turn_is_the_same_and_what_was_cached(kept: Kept) -> None:
    kept.take_in(Talked())
    said = " ".join(run("compare", "--by", "turn", *kept.root).output.split())
    assert "Turns of sessions at 4 at once against baseline: talks" in said
    assert "what the user says is the same in all arms" in said
    assert (
        "One K fits all turns at 4 at once: with draft_model K=3 no turn waits more than 2" in said
    )
    held = "held, over all turns: 50.0 % with baseline and 50.0 % with draft_model K=3."
    assert held in said
    assert "tok/s" not in said


def test_a_first_token_that_comes_later_is_said_beside_the_k_that_fits(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIRST, 3, (0.10, 0.30, 0.10))
    kept.take_in(Talked())
    sentence = kept.turns()["one"]["sentence"]
    assert sentence.startswith("One K fits all turns at 4 at once: with draft_model K=3 no turn")
    assert sentence.endswith(
        "The first token of turn 2 comes later with draft_model K=3 than with baseline."
    )


def test_without_counters_what_was_cached_is_unknown(kept: Kept) -> None:
    kept.take_in(Talked(hits=None))
    assert kept.turns()["prefix_hits"] == {}
    said = " ".join(run("compare", "--by", "turn", *kept.root).output.split())
    assert "over all turns: unknown, the server counts none" in said


def test_arms_pair_by_what_users_say_and_each_request_keeps_its_own_prompt(kept: Kept) -> None:
    kept.take_in(Talked(launches=1))
    assert told("compare", *kept.root)["unmatched"] == []
    with Reader(kept.place / "warehouse") as reader:
        cells = queries.cells(reader, Filters()).to_pandas()
        assert cells["prompt_set_hash"].nunique() == 1
        rows = [queries.requests(reader, one).to_pandas() for one in cells["cell_id"]]
    for both, one in ((SESSIONS, 1), (0, 2), (0, 3)):
        asked = [set(each.loc[each["turn"] == one, "prompt_hash"]) for each in rows]
        # Later turns hold answers, here another one for each arm.
        assert len(asked[0] & asked[1]) == both


def test_first_and_later_turns_have_a_time_to_first_token_each(kept: Kept) -> None:
    kept.take_in(Talked(launches=1))
    with Reader(kept.place / "warehouse") as reader:
        found = queries.measurements(reader, Filters(), TTFT, ("mean",)).to_pandas()
    means = found.groupby("metric")["value"].agg(list)
    # One after the other: the baseline and K = 3.
    assert sorted(means["ttft_first_turn"]) == pytest.approx([100, 100], rel=0.03)
    assert sorted(means["ttft_later_turns"]) == pytest.approx([100, 250], rel=0.03)
    assert sorted(means["ttft"]) == pytest.approx([100, 200], rel=0.03)


@pytest.mark.parametrize("study", [Talked(told=False), Talked(turns=1)])
def test_requests_of_which_no_turn_is_told_have_none(kept: Kept, study: Talked) -> None:
    """A report of another generator, or requests that wait for nothing."""
    kept.take_in(study)
    said = str(refused("compare", "--by", "turn", *kept.root))
    assert "No request of these results says its turn: give a dataset of the study sessions" in said
    with Reader(kept.place / "warehouse") as reader:
        cells = queries.cells(reader, Filters()).to_pandas()
        assert queries.requests(reader, cells["cell_id"][0]).column("turn").null_count > 0
        found = queries.measurements(reader, Filters(), TTFT, ("mean",))
    assert {*found.column("metric").to_pylist()} == {"ttft"}


def test_a_turn_with_too_few_requests_is_unknown(kept: Kept) -> None:
    kept.take_in(Talked(sessions=6))
    at = kept.turns()
    assert {(one["ttft"], one["itl"]) for one in at["arms"]} == {(None, None)}
    assert "fewer than 8 requests in a launch" in at["arms"][0]["why_no_gain"]
    assert at["one"]["answer"] == "unknown"


def test_a_warehouse_without_turns_answers_and_says_what_to_do(kept: Kept) -> None:
    """As one was before requests had a turn."""
    kept.take_in(Talked())
    before = told("compare", *kept.root)
    for path in (kept.place / "warehouse" / "requests").glob("*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns("turn"), path)
    assert told("compare", *kept.root) == before
    assert "ingest RESULTS --replace" in str(refused("compare", "--by", "turn", *kept.root))
