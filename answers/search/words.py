"""A search in words and as rows of text."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.search.race import MOST, UNLIKELY, End, Settling
from analysis.search.space import Space
from answers.decide.overview import name
from answers.search.values import (
    LaunchStep,
    PlaceOutcome,
    SearchCandidate,
    SearchReport,
    SearchTerms,
    WinnerProof,
)
from answers.wording import TextRows, known, percent
from warehouse.catalogue import counted

UNDER_WAY = "under way"
_ENDED = {
    "settled": "settled",
    "budget": "the budget is spent",
    "noise": "the noise forbids a decision within the budget",
    "nothing left": "no recorded launch is left that would tell more",
    "all out": "no arm is left that may be taken",
}
_ALL_MEASURED = "`repeats` of the study allows no further launch that would tell enough"
_WHY = {"screen": "screening", "race": "race", "check": "winner checked", "measured": ""}


def ended(end: End, measuring: bool = False) -> str:
    """Return why a search is over, in words; ``measuring``: it is none over recorded launches."""
    return _ALL_MEASURED if measuring and end.why == "nothing left" else _ENDED[end.why]


def where(space: Space, places: NDArray[np.bool_]) -> str:
    """Return datasets and loads in words: ``code at 1, 4; prose at 16``; ``everywhere`` for all."""
    if places.all():
        return "everywhere"
    chosen = (space.places[int(at)] for at in np.flatnonzero(places))
    by = _by_traffic((place.traffic, place.load) for place in chosen)
    alike = {tuple(loads) for loads in by.values()}
    if len(alike) == 1 and len(by) == len({place.traffic for place in space.places}):
        return f"at {', '.join(alike.pop())}"
    return _listed(by)


def _by_traffic(places: Iterable[tuple[str, float]]) -> dict[str, list[str]]:
    by: dict[str, list[str]] = {}
    for traffic, load in places:
        by.setdefault(traffic, []).append(f"{load:g}")
    return by


def _listed(loads: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{name} at {', '.join(some)}" for name, some in loads.items())


def headline(report: SearchReport, more: Settling | None) -> str:
    """Return in a few sentences what a search decided, at what cost, and what is open."""
    error, out = percent(report.terms.error, sign=False), "; ".join(report.out)
    cost = (
        f"{counted(len(report.steps), 'launch', 'launches')} and {report.minutes:.0f} minutes of the "
        f"{report.grid_min:.0f} that the full grid takes"
    )
    if report.ended == _ENDED["all out"]:
        return (
            f"Nothing to decide after {cost}: {report.ended}. Mend what put them out and give the same "
            f"command again, or serve without drafts. Out: {out or 'all'}."
        )
    if report.decided:
        verb = "is" if len(report.out) == 1 else "are"
        left = f" {counted(len(report.out), 'arm')} {verb} out: {out}." if out else ""
        return f"Decided with {cost}: {_decision_words(report)} (error {error}).{left}"
    if report.ended == UNDER_WAY:
        return f"Under way after {cost}."
    if not report.found:
        return f"Open: {report.ended} before every method was measured once."
    settled = sum(place.settled for place in report.found)
    return (
        f"Open after {cost}: {report.ended}; {settled} of {len(report.found)} places are settled. "
        f"{_more(more)}"
    )


def _decision_words(report: SearchReport) -> str:
    beyond = [place for place in report.found if not place.meets]
    stake = percent(report.terms.stake, sign=False)
    best = f"no other arm is better by more than {stake} at any load"
    if not beyond:
        return best
    if len(beyond) == len(report.found):
        return f"no arm meets the SLO {report.terms.slo} at any load, so none is to be taken"
    told = _listed(_by_traffic((place.dataset, place.load) for place in beyond))
    return f"{best} where one meets the SLO {report.terms.slo}, and none does on {told}"


def _more(more: Settling | None) -> str:
    if more is None:
        return ""
    if more.launches is None:
        return (
            f"More than {MOST} further launches would be needed: the noise is too large for this "
            "stake; raise --stake, or measure longer cells on a quieter machine."
        )
    return (
        f"About {more.launches} further launches ({more.minutes:.0f} minutes) would settle it if every "
        "arm stays as fast as it is expected to be."
    )


def outlook(report: SearchReport, more: Settling | None, used_up: Sequence[str] = ()) -> str:
    """Say how likely the rest of the budget decides, and what would do where it hardly will.

    ``used_up``: arms without which it hardly will, and which had all launches that the study allows.
    """
    if report.chance is None or report.decided:
        return ""
    decides = f"decides with a chance of about {percent(report.chance, sign=False)}."
    if report.chance >= UNLIKELY:
        return f"The rest of the budget {decides}"
    why, cure = "The noise may well forbid a decision within the budget: the rest of it", ""
    if used_up:
        cure = "Raise `repeats` and give the same command again."
        why = (
            f"`repeats` of the study allows no further launch of {', '.join(used_up)}: without them "
            "the rest of the budget"
        )
    return " ".join(filter(None, (f"{why} {decides}", _more(more), cure)))


def steps(report: SearchReport) -> TextRows:
    """Return a line per launch: what, where and for how long; of recorded launches that are played also
    why, and what was open before."""
    header = ["launch", "arm", "measured", "minutes", "for the", "open before"]
    rows = [
        [str(at), step.arm, step.where, f"{step.minutes:.1f}", _WHY[step.why],
         "" if step.open is None else percent(min(step.open, 1.0), sign=False)]
        for at, step in enumerate(report.steps, 1)
    ]  # fmt: skip
    if any(step.why != "measured" for step in report.steps):
        return header, rows
    return header[:4], [row[:4] for row in rows]


def standings(outcomes: Sequence[PlaceOutcome]) -> TextRows:
    """Return a line per dataset and load: who leads, by how much, and how sure that is."""
    return ["dataset", "load", "take", "gain, 95 %", "state", "rival", "chance"], [
        [one.dataset, f"{one.load:g}", one.arm if one.meets else "none meets the SLO",
         _between(one.gain_low, one.gain_high) if one.meets else "",
         "settled" if one.settled else "open", one.rival or "",
         percent(min(one.chance, 1.0), sign=False)]
        for one in outcomes
    ]  # fmt: skip


def places(outcomes: Sequence[PlaceOutcome]) -> TextRows:
    """Return the standings, and beside them what the decision over every recorded launch takes, where
    there is one."""
    header, rows = standings(outcomes)
    if all(one.by_all is None for one in outcomes):
        return header, rows
    by_all = [
        f"{one.by_all} ({'agrees' if one.agrees else 'differs'})" if one.by_all else "no decision"
        for one in outcomes
    ]
    return [*header, "by all launches"], [[*row, x] for row, x in zip(rows, by_all, strict=True)]


def title(report: SearchReport) -> str:
    """Return what the search is about: the study and, of recorded launches, the model and what else
    tells it from another one of the same study."""
    if report.system is None:
        return known(report.study)
    size = report.system.tensor_parallel_size
    told = (name(report.system), f"TP {known(size)}", report.system.configuration)
    return f"{known(report.study)}: {', '.join(part for part in told if part)}"


def cost_so_far(report: SearchReport) -> str:
    """Return the launches and minutes so far against the full grid's, and the money by the study's
    price."""
    usd = "" if report.usd is None else f", about {report.usd:,.2f} USD"
    return (
        f"{counted(len(report.steps), 'launch', 'launches')}, {report.minutes:.0f} minutes{usd}; the full "
        f"grid takes {report.grid_min:.0f}"
    )


def terms(agreed: SearchTerms) -> str:
    """Return what a search is for and when it is done: ``throughput, stake 2.0 %, error 5.0 %``."""
    mix = ", ".join(f"{name} {percent(share, sign=False)}" for name, share in agreed.mix)
    parts = (
        "latency" if agreed.latency else "throughput",
        f"stake {percent(agreed.stake, sign=False)}", f"error {percent(agreed.error, sign=False)}",
        None if agreed.budget_min is None else f"budget {agreed.budget_min:.0f} minutes",
        None if agreed.slo is None else f"within {agreed.slo}", f"for a mix of {mix}" if mix else None,
    )  # fmt: skip
    return ", ".join(part for part in parts if part)


def candidate_rows(candidates: Sequence[SearchCandidate]) -> TextRows:
    """Return a line per candidate: how it stands, its expected gain from the place where it gains least to
    the one where it gains most, and how often it was launched."""
    return ["candidate", "state", "gain expected", "launches"], [
        [one.arm, one.state,
         "" if one.low is None or one.high is None else _between(one.low, one.high),
         str(one.launches)]
        for one in candidates
    ]  # fmt: skip


def because(step: LaunchStep) -> str:
    """Say why a launch comes next, and how long it takes."""
    why = {
        "screen": "nothing can be said without it",
        "race": "it tells most about what is open for its minutes",
        "check": "it leads there and was not measured there",
    }[step.why]
    return f"{step.where}, about {step.minutes:.1f} minutes: {why}"


def proof(winner: WinnerProof) -> str:
    """Return in a few sentences whether the winner is to be taken, what it gains, and why not."""
    if winner.refused is not None:
        return f"The winner ({winner.words}) is not recommended: {winner.refused}."
    if not winner.kept:
        # Both lists are against what was promised; the baseline's comes first.
        worst = min((*winner.places, *winner.ahead), key=lambda place: place.surprise)
        against = "the baseline" if worst in winner.places else f"the runner-up ({winner.rival})"
        return (
            f"The winner ({winner.words}) did not keep its promise: at {worst.load:g} on "
            f"{worst.dataset} {_between(worst.promised_low, worst.promised_high)} against {against} was promised and "
            f"{percent(worst.proven)} is proven ({_between(worst.low, worst.high)}). So it is not shown to be the best "
            "choice and not recommended; search on with a smaller --stake, or on a quieter machine."
        )
    beside = f", also against the runner-up ({winner.rival})" if winner.ahead else ""
    if winner.rival is not None and not winner.ahead:
        beside = f"; nothing is proven against the runner-up ({winner.rival}), whose launches are not whole"
    more = "" if winner.answer != "open" else (
        f" To settle it {'raise `repeats`' if winner.repeats is None else f'write `repeats: {winner.repeats}`'} "
        f"into the study of the proof{f' ({winner.study})' * bool(winner.study)} and give this command again."
    )  # fmt: skip
    return f"The winner ({winner.words}) kept its promise in fresh launches{beside}. {winner.decision}{more}"


def proof_rows(winner: WinnerProof) -> TextRows:
    """A line per dataset and load: the gain as promised and as proven, against the baseline and
    against the runner-up."""
    return ["against", "dataset", "load", "promised, 95 %", "proven", "95 %"], [
        [name, place.dataset, f"{place.load:g}", _between(place.promised_low, place.promised_high), percent(place.proven),
         _between(place.low, place.high)]
        for name, places in (("baseline", winner.places), ("runner-up", winner.ahead))
        for place in places
    ]  # fmt: skip


def _between(low: float, high: float) -> str:
    first, last = percent(low), percent(high)
    return first if first == last else f"{first} to {last}"
