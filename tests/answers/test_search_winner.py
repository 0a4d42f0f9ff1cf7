"""What a decided search would have one server do."""

import json

import numpy as np
from numpy.typing import NDArray

from analysis.search.belief import Belief
from analysis.search.space import Arm, Floats, Lengths, Place, Seen, Space
from answers.search.values import Proof, Proven
from answers.search.winner import Winner, runner_up, winner
from answers.search.words import proof, proof_rows

Bools = NDArray[np.bool_]
SPACE = Space(
    (Arm("baseline", "", 0), Arm("draft-k1", '{"method": "draft_model"}', 1),
     Arm("draft-k3", '{"method": "draft_model"}', 3), Arm("ngram-k3", '{"method": "ngram"}', 3)),
    tuple(Place(name, load) for name in ("code", "prose") for load in (1.0, 16.0)),
    3.0, np.full(4, 2.0),
)  # fmt: skip


def known(
    speed: Floats, out: frozenset[int] = frozenset(), barred: Bools | None = None
) -> tuple[Space, Seen, Belief]:
    """``speed`` (arms, places): log speeds that are known for certain."""
    none = np.zeros((1, 1))
    belief = Belief(np.ones(1), speed[None], none[None], none, np.ones(1), none)
    lengths = Lengths(np.ones(speed.shape), np.zeros(speed.shape))
    return SPACE, Seen((), lengths, out, barred=barred), belief


def chosen(speed: Floats, out: frozenset[int] = frozenset(), barred: Bools | None = None) -> Winner:
    return winner(*known(speed, out, barred))


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
    assert found.words == "3 draft tokens in batches up to 4, then 1"


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
    assert (other.like, other.words, other.arms.tolist()) == ("ngram-k3", "K=3", [3] * 4)
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


def test_a_winner_that_does_not_keep_its_promise_is_not_recommended() -> None:
    short = Proven("code", 16.0, 0.2, 0.05, 0.02, 0.08)
    said = proof(Proof("{}", "K=3", False, (Proven("code", 1.0, 0.2, 0.2, 0.1, 0.3), short)))
    assert "did not keep its promise" in said
    assert "not recommended" in said
    assert "kept its promise" in proof(Proof("{}", "K=3", True, (short,)))


def test_a_winner_that_the_runner_up_beats_is_not_recommended_and_the_rows_tell_both() -> None:
    good, beaten = (
        Proven("code", 1.0, 0.2, 0.2, 0.1, 0.3),
        Proven("code", 1.0, 0.1, -0.1, -0.2, 0.0),
    )
    told = Proof("{}", "K=3", False, (good,), "K=1", (beaten,))
    assert "against the runner-up (K=1) was promised" in proof(told)
    assert [row[0] for row in proof_rows(told)[1]] == ["baseline", "runner-up"]
    kept = Proof("{}", "K=3", True, (good,), "K=1", (good,))
    assert "also against the runner-up (K=1)" in proof(kept)
