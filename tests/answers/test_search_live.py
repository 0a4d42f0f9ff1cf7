"""A search that is under way, over drops as the runner leaves them, on a server whose truth is known."""

import json
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from analysis.search.space import SearchArm, SearchPlace
from answers.search.live import live
from answers.search.measured import bare, measured
from answers.search.values import (
    ExcludedArm,
    LaunchOrder,
    LiveSearch,
    SearchPlan,
    SearchTerms,
    Winner,
)
from answers.search.winner import proven
from answers.search.words import outlook
from answers.search.words import proof as words_of
from tests.commands.asking import run
from tests.truth.drops import One, write_drop
from tests.truth.frames import FACTS, OUTPUT
from warehouse.errors import InvalidInput
from warehouse.store import Reader

pytestmark = pytest.mark.slow
DRAFT = '{"method": "draft_model", "model": "draft"}'
#: Speed against the baseline, by arm and load: K=3 wins alone, K=1 under load.
SPEED = {("k1", 1): 1.2, ("k1", 8): 1.15, ("k3", 1): 1.5, ("k3", 8): 0.8}
K = {"baseline": 0, "k1": 1, "k3": 3}
PLANNED = SearchPlan(
    "mine",
    (SearchArm("baseline", "", 0), SearchArm("k1", DRAFT, 1), SearchArm("k3", DRAFT, 3)),
    tuple(SearchPlace(name, load) for name in ("code", "prose") for load in (1.0, 8.0)),
    {arm: tuple(f"{arm}-start-{turn}" for turn in range(8)) for arm in K},
    10.0,
)


@dataclass
class Node:
    """A machine on which an arm is as fast as ``speed`` says, code half as slow as prose, up to 1 %."""

    results: Path
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    clock: float = 1.8e9
    speed: dict[tuple[str, int], float] = field(default_factory=lambda: SPEED)

    def measure(self, order: LaunchOrder) -> None:
        self.drops("mine", order.step.arm, order.launch_id, (order.datasets, order.loads))

    def drops(
        self,
        study: str,
        arm: str,
        launch: str,
        cells: tuple[tuple[str, ...], tuple[int, ...]],
        as_at: dict[int, str] | None = None,
    ) -> None:
        """``as_at``: load -> the arm that a table of K is like there."""
        self.clock += 180
        for dataset in cells[0]:
            for load in cells[1]:
                like = (as_at or {}).get(load, arm)
                speed = self.speed.get((like, load), 1.0) * np.exp(
                    0.01 * self.random.standard_normal()
                )
                latency = (2.0 if dataset == "code" else 1.0) * OUTPUT * 0.01 / float(speed)
                facts = {**FACTS, "study": study, "arm": arm, "launch": launch, "dataset": dataset,
                         "model": "m", "repeat": 0, "spec_method": "none"}  # fmt: skip
                if K.get(like, 0):
                    facts |= {"spec_method": "draft_model", "num_speculative_tokens": K[like]}
                one = One(facts, 0, float(load), self.clock, latency, latency / 10,
                          load * OUTPUT / latency)  # fmt: skip
                write_drop(one, self.results / study / arm / "tp1" / dataset / f"c{load}-{launch}")
                self.clock += 60

    def reader(self) -> Reader:
        warehouse = self.results / ".search"
        done = run("ingest", str(self.results), "--warehouse", str(warehouse))
        assert done.exception is None, done.output
        return Reader(warehouse)


def searched(
    node: Node, terms: SearchTerms, planned: SearchPlan = PLANNED
) -> tuple[LiveSearch, list[LaunchOrder]]:
    """Search to the end; what was ordered."""
    now, orders = live(None, planned, terms), []
    while now.orders:
        (order,) = now.orders
        orders.append(order)
        node.measure(order)
        with closing(node.reader()) as reader:
            now = live(reader, planned, terms)
    return now, orders


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "results")


def prove(node: Node, one: Winner) -> None:
    names = [arm.label for arm in PLANNED.arms]
    loads = [int(place.load) for place in PLANNED.places]
    like = {load: names[arm] for load, arm in zip(loads, one.arms.tolist(), strict=False)}
    for turn in range(2):
        for name, as_at in ((one.name, like), ("baseline", {})):
            node.drops("mine-proof", name, f"{name}-{turn}", (("code", "prose"), (1, 8)), as_at)


def test_it_orders_the_launches_of_the_plan_one_after_the_other_and_finds_the_best(
    node: Node,
) -> None:
    now, orders = searched(node, SearchTerms(stake=0.1))
    assert now.told.decided
    best = {(one.dataset, one.load): one.arm for one in now.told.found}
    assert best == {(name, load): arm for name in ("code", "prose")
                    for load, arm in ((1.0, "k3"), (8.0, "k1"))}  # fmt: skip
    states = {one.arm: one.state for one in now.told.candidates}
    assert states == {"baseline": "behind", "k1": "leads at 8", "k3": "leads at 1"}
    for arm in K:
        mine = [order.launch_id for order in orders if order.step.arm == arm]
        assert mine == [f"{arm}-start-{turn}" for turn in range(len(mine))]
    assert now.winner is not None
    assert now.rival is not None
    with closing(node.reader()) as reader:
        assert proven(reader, PLANNED, now, "mine-proof").proof is None
    prove(node, now.winner)
    prove(node, now.rival)
    with closing(node.reader()) as reader:
        proof = proven(reader, PLANNED, now, "mine-proof").proof
    assert proof is not None
    assert proof.kept
    assert proof.rival == "K=1"
    at_1 = [place for place in proof.places if place.load == 1]
    assert [place.proven for place in at_1] == pytest.approx([0.5, 0.5], abs=0.05)
    ahead = {place.load: place.proven for place in proof.ahead}
    assert ahead[1.0] == pytest.approx(1.5 / 1.2 - 1, abs=0.05)
    assert ahead[8.0] == pytest.approx(0.0, abs=0.05)


def test_what_is_decided_of_a_winner_is_what_verdict_says_of_its_proof(node: Node) -> None:
    now, _ = searched(node, SearchTerms(stake=0.1))
    assert now.winner is not None
    assert now.rival is not None
    prove(node, now.winner)
    prove(node, now.rival)
    with closing(node.reader()) as reader:
        proof = proven(reader, PLANNED, now, "mine-proof").proof
    assert proof is not None
    warehouse = ("--warehouse", str(node.results / ".search"))
    said = json.loads(run("verdict", *warehouse, "--study", "mine-proof", "--json").stdout)
    (mix,) = (one for one in said["decisions"] if "mix" in one["traffic"])
    assert proof.answer == mix["answer"] == "yes"
    assert proof.decision.startswith(mix["headline"])
    assert proof.paste is not None
    assert proof.paste == mix["speculative_config"]


def test_a_study_that_allows_too_few_launches_is_told_to_raise_repeats(node: Node) -> None:
    """Both arms are equally fast, to a stake of which two launches each say too little."""
    node.speed = dict.fromkeys(SPEED, 1.2)
    few = replace(PLANNED, launches={arm: ids[:2] for arm, ids in PLANNED.launches.items()})
    now, _ = searched(node, SearchTerms(stake=0.016, budget_min=200), few)
    assert not now.told.decided
    assert "`repeats` of the study allows no further launch" in now.told.headline
    assert "further launches" in now.told.headline
    assert "noise" not in now.told.headline
    said = outlook(replace(now.told, chance=0.01), None, ("k1", "k3"))
    assert said.startswith("`repeats` of the study allows no further launch of k1, k3: ")
    assert said.endswith("%. Raise `repeats` and give the same command again.")


def test_a_mix_is_measured_with_all_its_datasets_and_decided_as_one(node: Node) -> None:
    terms = SearchTerms(stake=0.1, mix=(("code", 0.5), ("prose", 0.5)))
    now, orders = searched(node, terms)
    assert now.told.decided
    assert {order.datasets for order in orders} == {("code", "prose")}
    assert [(one.dataset, one.load, one.arm) for one in now.told.found] == [
        ("mix", 1.0, "k3"), ("mix", 8.0, "k1"),
    ]  # fmt: skip
    assert now.winner is not None
    prove(node, now.winner)
    assert now.rival is not None
    prove(node, now.rival)
    with closing(node.reader()) as reader:
        proof = proven(reader, PLANNED, now, "mine-proof").proof
    assert proof is not None
    assert [(place.dataset, place.load) for place in proof.places] == [("mix", 1.0), ("mix", 8.0)]


def test_an_arm_that_breaks_the_slo_is_not_taken(node: Node) -> None:
    """Alone, K=1 answers prose in 1 / 1.2 of the time and K=3 in 1 / 1.5; the first is too slow."""
    limit = OUTPUT * 0.01 * 0.75
    now, _ = searched(node, SearchTerms(stake=0.1, slo=f"latency:p50<{limit}s"))
    found = {(one.dataset, one.load): one for one in now.told.found}
    assert found["prose", 1.0].arm == "k3"
    assert found["prose", 1.0].meets
    assert not found["prose", 8.0].meets
    assert not found["code", 1.0].meets


def test_launches_side_by_side_are_launches_of_their_own_and_decide_alike(node: Node) -> None:
    planned, terms = replace(PLANNED, at_once=3), SearchTerms(stake=0.05, budget_min=400)
    now, ids = live(None, planned, terms), []
    first = [order.step.arm for order in now.orders]
    while now.orders:
        assert len(now.orders) <= 3
        ids += [order.launch_id for order in now.orders]
        for order in now.orders:
            node.measure(order)
        with closing(node.reader()) as reader:
            now = live(reader, planned, terms)
    assert first == ["baseline", "k3"]
    assert len(set(ids)) == len(ids)
    assert now.told.decided
    assert {(one.load, one.arm) for one in now.told.found} == {(1.0, "k3"), (8.0, "k1")}


def test_servers_beside_each_other_cost_the_machine_once_and_tell_their_start(
    node: Node,
) -> None:
    begin = node.clock
    for arm in ("baseline", "k1", "k3"):
        node.clock = begin if arm != "k3" else begin + 600
        node.drops("mine", arm, f"{arm}-start-0", (("code",), (1, 8)))
    with closing(node.reader()) as reader:
        found = measured(reader, "mine", bare(PLANNED), SearchTerms())
    assert found.abreast == pytest.approx(2 / 3, abs=0.01)
    duration = float(found.space.cell_min[0])
    # k3 began 600 s after the two others did, whose two cells were over by then.
    assert found.space.start_min == pytest.approx(10 - 1 - duration, abs=1.0)


def test_where_no_arm_can_be_measured_nothing_is_called_decided(node: Node) -> None:
    out = (
        ExcludedArm("k1", "code at 1: no such draft"),
        ExcludedArm("k3", "code at 1: no such draft"),
    )
    node.measure(live(None, PLANNED, SearchTerms(), out).orders[0])
    with closing(node.reader()) as reader:
        now = live(reader, PLANNED, SearchTerms(), out)
    assert not now.orders
    assert not now.told.decided
    assert now.winner is None
    assert now.told.headline.startswith("Nothing to decide after 1 launch and")
    assert "k3 (code at 1: no such draft)" in now.told.headline
    assert {one.arm for one in now.told.found} == {"baseline"}


def test_a_decision_says_which_arms_it_did_not_compare_and_where_none_meets_the_slo(
    node: Node,
) -> None:
    limit = OUTPUT * 0.01 * 0.75
    now, _ = searched(node, SearchTerms(stake=0.1, slo=f"latency:p50<{limit}s"))
    assert (
        f"where one meets the SLO latency:p50<{limit}s, and none does on code at 1, 8; prose at 8"
        in (now.told.headline)
    )
    gone = (ExcludedArm("k1", "code at 8: out of memory"),)
    with closing(node.reader()) as reader:
        told = live(reader, PLANNED, SearchTerms(stake=0.5), gone).told
    assert told.decided
    assert told.headline.endswith("1 arm is out: k1 (code at 8: out of memory).")
    with closing(node.reader()) as reader:
        none = live(reader, PLANNED, SearchTerms(stake=0.1, slo="latency:p50<0.1ms")).told
    assert (
        "no arm meets the SLO latency:p50<0.1ms at any load, so none is to be taken"
        in none.headline
    )


def test_a_budget_that_runs_out_later_than_at_the_start_ends_open_with_what_is_known(
    node: Node,
) -> None:
    with pytest.raises(InvalidInput, match="too few to measure every method once"):
        live(None, PLANNED, SearchTerms(budget_min=1))
    node.measure(live(None, PLANNED, SearchTerms()).orders[0])
    with closing(node.reader()) as reader:
        now = live(reader, PLANNED, SearchTerms(budget_min=1))
    assert not now.orders
    assert now.told.headline == "Open: the budget is spent before every method was measured once."


def test_money_buys_more_launches_where_they_share_a_machine(node: Node) -> None:
    begin = node.clock
    for arm in ("baseline", "k1", "k3"):
        node.clock = begin
        node.drops("mine", arm, f"{arm}-start-0", (("code", "prose"), (1, 8)))
    priced, terms = (
        replace(PLANNED, usd_per_min=1.0),
        SearchTerms(stake=0.001, budget_min=22, by_money=True),
    )
    with closing(node.reader()) as reader:
        one, each = (
            live(reader, replace(priced, one_machine=is_one), terms) for is_one in (True, False)
        )
        minutes = live(reader, priced, replace(terms, by_money=False))
    assert one.told.usd is not None
    assert each.told.usd is not None
    assert 3 * one.told.usd == pytest.approx(each.told.usd, rel=0.02)
    assert each.told.usd == pytest.approx(each.told.minutes)
    assert one.orders
    assert [x.told.ended for x in (each, minutes)] == ["the budget is spent"] * 2


def test_a_launch_of_a_mix_that_was_cut_short_is_measured_to_its_end(node: Node) -> None:
    """It was killed after the first of two datasets, so at no load is anything known of the mix."""
    node.drops("mine", "baseline", "baseline-start-0", (("code",), (1, 8)))
    for mix, datasets in ((("code", 0.5), ("prose", 0.5)), ("code", "prose")), ((), ("prose",)):
        with closing(node.reader()) as reader:
            (order,) = live(reader, PLANNED, SearchTerms(mix=mix)).orders
        assert order.datasets == datasets
        assert order.launch_id == ("baseline-start-0" if mix else "baseline-start-1")


def test_a_mix_whose_datasets_share_no_load_is_refused() -> None:
    apart = replace(PLANNED, places=(SearchPlace("code", 1.0), SearchPlace("prose", 8.0)))
    with pytest.raises(InvalidInput, match=r"share no load \(code at 1; prose at 8\)"):
        live(None, apart, SearchTerms(mix=(("code", 0.5), ("prose", 0.5))))


def test_where_datasets_cannot_be_mixed_all_decisions_of_a_proof_are_told(node: Node) -> None:
    apart = replace(PLANNED, places=(SearchPlace("code", 1.0), SearchPlace("prose", 8.0)))
    now, _ = searched(node, SearchTerms(stake=0.1), apart)
    assert now.winner is not None
    assert now.rival is not None
    like = {1: "k3", 8: "k1"}
    for turn in range(2):
        for name, as_at in (
            (now.winner.name, like),
            ("baseline", {}),
            (now.rival.name, {1: "k1", 8: "k1"}),
        ):
            for cells in ((("code",), (1,)), (("prose",), (8,))):
                node.drops("mine-proof", name, f"{name}-{turn}", cells, as_at)
    with closing(node.reader()) as reader:
        proof = proven(reader, apart, now, "mine-proof").proof
    assert proof is not None
    assert "code: " in proof.decision
    assert "prose: " in proof.decision
    assert proof.recommended


def test_a_runner_up_without_whole_launches_keeps_no_proof_from_being_told(node: Node) -> None:
    now, _ = searched(node, SearchTerms(stake=0.1))
    assert now.winner is not None
    assert now.rival is not None
    prove(node, now.winner)
    with closing(node.reader()) as reader:
        proof = proven(reader, PLANNED, now, "mine-proof").proof
    assert proof is not None
    assert (proof.rival, proof.ahead) == ("K=1", ())
    assert (
        "nothing is proven against the runner-up (K=1), whose launches are not whole"
        in words_of(proof)
    )
