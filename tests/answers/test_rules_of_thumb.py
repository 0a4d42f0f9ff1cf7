"""Rules of thumb of each arm and load are held against the K that is best there."""

from pathlib import Path

from analysis.drafts.acceptance_tables import Arm, opinions
from analysis.evidence.words import EQUIVALENCE
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion
from answers.predict.acceptance import accepted, rules
from tests.dashboard.tuning.conftest import LOADS, fill_study, laws
from warehouse.filters import Filters
from warehouse.store import Reader

KS = (0, 1, 2, 4)


def best_by_the_laws(load: int) -> list[int] | None:
    """The K within the margin of the best; None where noise may carry one across it."""
    rate = {k: laws("code", k, load)["output_throughput"] for k in KS}
    behind = {k: (max(rate.values()) - value) / rate[0] for k, value in rate.items()}
    if any(abs(each - EQUIVALENCE) < 0.01 for each in behind.values()):
        return None
    return [k for k, each in behind.items() if each <= EQUIVALENCE]


def test_a_rule_is_right_where_it_names_a_k_that_is_best_at_that_load(tmp_path: Path) -> None:
    fill_study(tmp_path, launches=True, ks=KS)
    with Reader(tmp_path) as reader:
        question = DecideQuestion(Filters(dataset=("code",)))
        (decision,) = decide(reader, question).decisions
        found = list(rules(decision, accepted(reader, question.filters)))

    assert {(one.arm, one.concurrency) for one in found} == {
        (f"draft_model K={k}", load) for k in KS[1:] for load in LOADS
    }
    judged = []
    for load in LOADS:
        best = best_by_the_laws(load)
        for k in KS[1:] if best else ():
            length = laws("code", k, load)["mean_acceptance_length"]
            expected = opinions(Arm(k, round((length - 1) / k, 3), length), best or (), KS)
            told = [
                one for one in found if (one.arm, one.concurrency) == (f"draft_model K={k}", load)
            ]
            assert [(one.says, one.agrees) for one in told] == [
                (x.says, x.agrees) for x in expected
            ]
            judged += [one.agrees for one in told]
    assert {True, False} <= {*judged}
