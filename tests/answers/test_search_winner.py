"""What a decided search would have one server do."""

import json

import numpy as np

from analysis.search.belief import Belief
from analysis.search.space import Arm, Floats, Lengths, Place, Seen, Space
from answers.search.values import Proof, Proven
from answers.search.winner import Winner, winner
from answers.search.words import proof

SPACE = Space(
    (Arm("baseline", "", 0), Arm("draft-k1", '{"method": "draft_model"}', 1),
     Arm("draft-k3", '{"method": "draft_model"}', 3), Arm("ngram-k3", '{"method": "ngram"}', 3)),
    tuple(Place(name, load) for name in ("code", "prose") for load in (1.0, 16.0)),
    3.0, np.full(4, 2.0),
)  # fmt: skip


def chosen(speed: Floats, out: frozenset[int] = frozenset()) -> Winner:
    """``speed`` (arms, places): log speeds that are known for certain."""
    none = np.zeros((1, 1))
    belief = Belief(np.ones(1), speed[None], none[None], none, np.ones(1), none)
    known = Lengths(np.ones(speed.shape), np.zeros(speed.shape))
    return winner(SPACE, Seen((), known, out), belief)


def test_one_k_for_all_loads_is_a_k_and_no_table() -> None:
    found = chosen(np.array([[0.0] * 4, [0.1] * 4, [0.3] * 4, [0.2] * 4]))
    assert json.loads(found.config or "") == {"method": "draft_model", "num_speculative_tokens": 3}
    assert (found.words, found.like, found.arms.tolist()) == ("K=3", "draft-k3", [2, 2, 2, 2])


def test_a_k_that_changes_with_the_load_is_a_table_over_the_datasets_together() -> None:
    """Prose alone would draft 3 tokens at 16; code loses more by it than prose gains."""
    found = chosen(np.array([[0.0] * 4, [0.1, 0.1, 0.1, 0.1], [0.4, -0.5, 0.4, 0.2], [0.0] * 4]))
    said = json.loads(found.config or "")
    assert said["num_speculative_tokens"] == 3
    (first, second) = said["num_speculative_tokens_per_batch_size"]
    assert (first[0], first[2], second[2]) == (1, 3, 1)
    assert found.arms.tolist() == [2, 1, 2, 1]
    assert found.words.startswith("K=3 in batches up to ")


def test_an_arm_that_is_out_wins_nothing_and_nothing_is_drafted_where_all_lose() -> None:
    speed = np.array([[0.0] * 4, [-0.1] * 4, [0.3] * 4, [0.2] * 4])
    assert chosen(speed, frozenset({2})).like == "ngram-k3"
    none = chosen(speed, frozenset({2, 3}))
    assert (none.config, none.arms.tolist()) == (None, [0, 0, 0, 0])


def test_another_winner_has_another_name() -> None:
    one = Winner('{"a": 1}', np.zeros(1, dtype=np.int64), "", "")
    other = Winner('{"a": 2}', np.zeros(1, dtype=np.int64), "", "")
    assert one.name != other.name


def test_a_winner_that_does_not_keep_its_promise_is_not_recommended() -> None:
    short = Proven("code", 16.0, 0.2, 0.05, 0.02, 0.08)
    said = proof(Proof("{}", "K=3", False, (Proven("code", 1.0, 0.2, 0.2, 0.1, 0.3), short)))
    assert "did not keep its promise" in said
    assert "not recommended" in said
    assert "kept its promise" in proof(Proof("{}", "K=3", True, (short,)))
