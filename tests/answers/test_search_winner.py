"""What a decided search would have one server do."""

import json
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analysis.search.belief import Belief
from analysis.search.space import (
    AcceptanceLengths,
    Floats,
    SearchArm,
    SearchPlace,
    SeenLaunches,
    Space,
    family_of,
)
from answers.search.values import ProvenGain, Winner, WinnerProof
from answers.search.winner import runner_up, winner
from answers.search.words import proof, proof_rows

Bools = NDArray[np.bool_]
SPACE = Space(
    (SearchArm("baseline", "", 0), SearchArm("draft-k1", '{"method": "draft_model"}', 1),
     SearchArm("draft-k3", '{"method": "draft_model"}', 3), SearchArm("ngram-k3", '{"method": "ngram"}', 3)),
    tuple(SearchPlace(name, load) for name in ("code", "prose") for load in (1.0, 16.0)),
    3.0, np.full(4, 2.0),
)  # fmt: skip


def known(
    speed: Floats, out: frozenset[int] = frozenset(), barred: Bools | None = None
) -> tuple[Space, SeenLaunches, Belief]:
    """``speed`` (arms, places): log speeds that are known for certain."""
    none = np.zeros((1, 1))
    belief = Belief(np.ones(1), speed[None], none[None], none, np.ones(1), none)
    lengths = AcceptanceLengths(np.ones(speed.shape), np.zeros(speed.shape))
    return SPACE, SeenLaunches((), lengths, out, barred=barred), belief


def chosen(speed: Floats, out: frozenset[int] = frozenset(), barred: Bools | None = None) -> Winner:
    return winner(*known(speed, out, barred))


def test_one_k_for_all_loads_is_a_k_and_no_table() -> None:
    found = chosen(np.array([[0.0] * 4, [0.1] * 4, [0.3] * 4, [0.2] * 4]))
    assert json.loads(found.config or "") == {"method": "draft_model", "num_speculative_tokens": 3}
    assert (found.words, found.like, found.arms.tolist()) == (
        "draft_model: K=3",
        "draft-k3",
        [2, 2, 2, 2],
    )


def test_a_k_that_changes_with_the_load_is_a_table_over_the_datasets_together() -> None:
    """Prose alone would draft 3 tokens at 16; code loses more by it than prose gains."""
    found = chosen(np.array([[0.0] * 4, [0.1, 0.1, 0.1, 0.1], [0.4, -0.5, 0.4, 0.2], [0.0] * 4]))
    said = json.loads(found.config or "")
    assert said["num_speculative_tokens"] == 3
    (first, second) = said["num_speculative_tokens_per_batch_size"]
    assert (first[0], first[2], second[2]) == (1, 3, 1)
    assert found.arms.tolist() == [2, 1, 2, 1]
    assert found.words == "draft_model: 3 draft tokens in batches up to 4, then 1"


def test_an_arm_that_is_out_wins_nothing_and_nothing_is_drafted_where_all_lose() -> None:
    speed = np.array([[0.0] * 4, [-0.1] * 4, [0.3] * 4, [0.2] * 4])
    assert chosen(speed, frozenset({2})).like == "ngram-k3"
    none = chosen(speed, frozenset({2, 3}))
    assert (none.config, none.arms.tolist()) == (None, [0, 0, 0, 0])


def test_the_runner_up_is_the_best_single_arm_that_is_not_the_winner() -> None:
    speed = np.array([[0.0] * 4, [0.1] * 4, [0.3] * 4, [0.2] * 4])
    asked = known(speed)
    other = runner_up(*asked, winner(*asked))
    assert other is not None
    assert (other.like, other.words, other.arms.tolist()) == ("ngram-k3", "ngram: K=3", [3] * 4)
    assert json.loads(other.config or "") == {"method": "ngram", "num_speculative_tokens": 3}
    assert other.name.startswith("runner-up-")
    alone = known(speed, frozenset({1, 3}))
    assert runner_up(*alone, winner(*alone)) is None


def test_a_winner_takes_no_arm_where_it_breaks_the_slo() -> None:
    barred = np.zeros((4, 4), dtype=np.bool_)
    barred[2, [1, 3]] = True
    found = chosen(np.array([[0.0] * 4, [0.1] * 4, [0.3] * 4, [0.0] * 4]), barred=barred)
    assert found.arms.tolist() == [2, 1, 2, 1]


def test_another_winner_has_another_name() -> None:
    one = Winner('{"a": 1}', np.zeros(1, dtype=np.int64), "", "")
    other = Winner('{"a": 2}', np.zeros(1, dtype=np.int64), "", "")
    assert one.name != other.name


def lines(*proven: tuple[str, float, float, float, float]) -> tuple[ProvenGain, ...]:
    """``proven``: dataset, load, the proven gain and its interval; 20 % (10 to 30) was promised."""
    return tuple(
        ProvenGain(
            name, load, 0.2, 0.1, 0.3, gain, low, high, surprise=0.5 if high > 0.1 else 0.001
        )
        for name, load, gain, low, high in proven
    )


def plain(said: str) -> str:
    """Return a text without its narrow spaces."""
    return said.replace("\u202f", " ")


GOOD, SHORT = ("code", 1.0, 0.2, 0.1, 0.3), ("code", 16.0, 0.05, 0.02, 0.08)
KEPT = WinnerProof("{}", "K=3", True, "yes", "Yes: serve with it.", "{}", lines(GOOD))


def test_a_winner_that_does_not_keep_its_promise_is_not_recommended() -> None:
    short = replace(KEPT, kept=False, places=lines(GOOD, SHORT))
    assert not short.recommended
    said = plain(proof(short))
    assert "did not keep its promise: at 16 on code +10.0 % to +30.0 % against the baseline" in said
    assert "not shown to be the best choice and not recommended" in said
    assert KEPT.recommended
    assert proof(KEPT) == (
        "The winner (K=3) kept its promise in fresh launches. Yes: serve with it."
    )


def test_a_winner_that_the_runner_up_beats_is_not_recommended_and_the_rows_tell_both() -> None:
    told = replace(KEPT, kept=False, rival="K=1", ahead=lines(("code", 1.0, -0.1, -0.2, 0.0)))
    assert "against the runner-up (K=1) was promised" in proof(told)
    assert [row[0] for row in proof_rows(told)[1]] == ["baseline", "runner-up"]
    kept = replace(KEPT, rival="K=1", ahead=lines(GOOD))
    assert "also against the runner-up (K=1)" in proof(kept)


def test_a_winner_is_recommended_only_where_the_decision_on_its_fresh_launches_is_to_draft() -> (
    None
):
    """A vague promise is easily kept."""
    undecided = replace(KEPT, answer="open", decision="Open: it is not settled that it pays.")
    assert not undecided.recommended
    assert "Open: it is not settled that it pays. To settle it raise `repeats`" in proof(undecided)
    known = replace(undecided, study="mine-proof", repeats=7)
    assert proof(known).endswith("To settle it write `repeats: 7` into the study of the proof "
                                 "(mine-proof) and give this command again.")  # fmt: skip
    assert "To settle" not in proof(replace(undecided, answer="none", decision="No arm meets it."))
    assert not replace(KEPT, answer="no").recommended
    assert replace(KEPT, answer="at some loads").recommended
    assert not replace(KEPT, refused="its answers differ").recommended


def test_a_family_that_names_no_method_is_a_draft_model_and_two_of_one_method_are_told_by_name() -> (
    None
):
    arms = (SearchArm("baseline", "", 0), SearchArm("small-k3", family_of({"model": "small"}, ["a"], ["a"]), 3),
            SearchArm("large-k3", family_of({"model": "large", "method": "draft_model"}, ["a"], ["a"]), 3))  # fmt: skip
    space = Space(arms, SPACE.places, 3.0, np.full(4, 2.0))
    speed = np.array([[0.0] * 4, [0.1] * 4, [0.3] * 4])
    _, seen, belief = known(speed)
    best = winner(space, seen, belief)
    rival = runner_up(space, seen, belief, best)
    assert rival is not None
    assert (best.words, rival.words) == ("large-k3: K=3", "small-k3: K=3")
    assert json.loads(rival.config or "") == {"model": "small", "num_speculative_tokens": 3}


def test_arms_that_differ_in_their_servers_alone_are_winner_and_runner_up() -> None:
    draft = {"method": "ngram"}
    arms = (SearchArm("baseline", "", 0), SearchArm("a-k3", family_of(draft, ["x"], ["x"]), 3),
            SearchArm("b-k3", family_of(draft, ["x", "--max-num-seqs", "64"], ["x"]), 3))  # fmt: skip
    space = Space(arms, SPACE.places, 3.0, np.full(4, 2.0))
    _, seen, belief = known(np.array([[0.0] * 4, [0.1] * 4, [0.3] * 4]))
    best = winner(space, seen, belief)
    rival = runner_up(space, seen, belief, best)
    assert rival is not None
    assert (best.like, rival.like) == ("b-k3", "a-k3")
    assert best.config == rival.config == '{"method": "ngram", "num_speculative_tokens": 3}'
    assert best.name.split("-")[1] != rival.name.split("-")[2]
