"""How a search says that it stands, and what of it is kept."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from answers.search import board, words
from answers.search.values import (
    LaunchStep,
    PlaceOutcome,
    ProvenGain,
    SearchCandidate,
    SearchReport,
    SearchTerms,
    WinnerProof,
)
from warehouse.filters import Filters

AT = datetime(2026, 11, 23, 15, 20, tzinfo=UTC)
PLAYED = SearchReport(
    "mine", None, SearchTerms(stake=0.1, mix=(("code", 0.5), ("prose", 0.5))),
    (LaunchStep("baseline", "everywhere", 4.5, "measured", None),),
    (PlaceOutcome("mix", 4.0, "k3", 0.31, 0.25, 0.37, 0.2, False, "k2", ("k2",)),),
    False, "under way", 4.5, 54.0, (), (), "", ("k5 (mix at 4: it crashed)",),
    candidates=(
        SearchCandidate("baseline", 1, None, None, "cannot win any more"),
        SearchCandidate("k3", 2, 0.1, 0.31, "leads at 4"),
        SearchCandidate("k5", 0, None, None, "out: mix at 4: it crashed"),
    ),
)  # fmt: skip
ONE = board.Board(PLAYED, "measuring", "Next: r0-k3, at 4, about 3.3 minutes.", AT, 3.3)


def test_a_file_says_what_was_written_into_it() -> None:
    proven = ProvenGain("mix", 4.0, 0.3, 0.2, 0.4, 0.28, 0.2, 0.36, 0.6)
    full = replace(
        ONE,
        told=replace(
            PLAYED,
            proof=WinnerProof("{}", "K=3", True, "yes", "Yes: serve with it.", "{}", (proven,)),
            usd=2.5,
        ),
    )

    assert board.from_texts([board.as_text(one).encode() for one in (ONE, full)]) == (ONE, full)


@pytest.mark.parametrize("text", [b"", b'{"told": ', b'{"phase": "over"}', b"[]"])
def test_a_file_that_was_cut_short_or_is_of_another_version_is_passed_over(text: bytes) -> None:
    assert board.from_texts([text, board.as_text(ONE).encode()]) == (ONE,)


def test_a_credential_in_the_reason_of_a_failure_is_not_kept() -> None:
    token = "hf_" + "a1B2c3D4" * 4
    gone = replace(PLAYED.candidates[2], state=f"out: the hub refused {token}")

    assert token not in board.as_text(replace(ONE, told=replace(PLAYED, candidates=(gone,))))


def test_the_label_says_how_it_stands_and_of_a_search_that_is_over_when_that_was() -> None:
    cost = "1 launch, 4 minutes; the full grid takes 54"
    over = replace(ONE, phase="over", expected_min=None)

    assert board.label(ONE, AT) == f"Search mine: under way, {cost}"
    assert board.label(over, AT) == f"Search mine (2026-11-23): ended open, {cost}"
    assert "decided" in board.label(replace(over, told=replace(PLAYED, decided=True)), AT)


def test_a_search_that_should_have_been_heard_of_is_told_so() -> None:
    soon, late = AT + timedelta(minutes=20), AT + timedelta(minutes=30)

    assert "under way" in board.label(ONE, soon)
    assert "should have been heard of" not in board.heard(ONE, soon)
    assert "mine: not heard of since 2026-11-23 15:20 UTC, 1" in board.label(ONE, late)
    assert board.heard(ONE, late) == (
        "As of 2026-11-23 15:20 UTC; throughput, stake 10.0\u202f%, error 5.0\u202f%, for a mix of code "
        "50.0\u202f%, prose 50.0\u202f%. It should have been heard of since: look at the terminal in which it "
        "runs. If it was killed, the same command goes on from here."
    )


def test_searches_are_chosen_by_study_and_day_the_newest_first() -> None:
    later = replace(ONE, at=AT + timedelta(days=1), told=replace(PLAYED, study="other"))

    assert board.chosen((ONE, later), Filters()) == (later, ONE)
    assert board.chosen((ONE, later), Filters(study=("mine",))) == (ONE,)
    assert board.chosen((ONE, later), Filters(since="2026-11-24")) == (later,)


def test_a_candidate_is_a_row_with_its_gain_from_least_to_most() -> None:
    _, rows = words.candidate_rows(PLAYED.candidates)

    assert rows == [
        ["baseline", "cannot win any more", "", "1"],
        ["k3", "leads at 4", "+10.0\u202f% to +31.0\u202f%", "2"],
        ["k5", "out: mix at 4: it crashed", "", "0"],
    ]
