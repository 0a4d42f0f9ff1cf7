"""A search that is under way: what its drops tell so far, and what to measure next; and one that is played
over recorded launches: what it would have measured, decided and cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.search import belief
from analysis.search.belief import acceptance_lengths, unmixed
from analysis.search.proof import promised
from analysis.search.race import UNLIKELY, End, Next, SearchState, screening, spent, state
from analysis.search.space import BASELINE, Aim, MeasuredLaunch, SeenLaunches, Space
from answers.decide.answer import decide
from answers.ground import ground
from answers.search.measured import (
    MeasuredStudy,
    RecordedStudy,
    bare,
    measured,
    mix_of,
    of_traffic,
    recorded,
)
from answers.search.values import (
    ExcludedArm,
    LaunchOrder,
    LaunchStep,
    LiveSearch,
    PlaceOutcome,
    SearchCandidate,
    SearchPlan,
    SearchReport,
    SearchTerms,
    Winner,
)
from answers.search.winner import runner_up, winner
from answers.search.words import UNDER_WAY, ended, headline, outlook, where
from answers.wording import percent
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

#: The full grid that a search is compared with measures everything so often.
GRID_REPEATS = 3

# --- What is known after some launches: of each candidate, of each place, and what comes next.


def candidates(now: SearchState, gone: Mapping[str, str]) -> tuple[SearchCandidate, ...]:
    """Return every arm of a search, the baseline first: where it leads, may still win, or why it is out.
    ``gone``: arm -> why it is out."""
    found = []
    for at, arm in enumerate(now.space.arms):
        low = high = None
        if now.belief is not None and at != BASELINE and at not in now.seen.out:
            gain = np.expm1(now.belief.expected[at] - now.belief.expected[BASELINE])
            low, high = float(gain.min()), float(gain.max())
        told = "; ".join(_state_words(now, at))
        if at in now.seen.out:
            told = f"out: {gone.get(arm.label, 'it was never measured')}"
        launches = sum(launch.arm == at for launch in now.seen.launches)
        found.append(SearchCandidate(arm.label, launches, low, high, told))
    return tuple(found)


def _state_words(now: SearchState, arm: int) -> list[str]:
    space, seen, leaders = now.space, now.seen, now.now
    told = []
    if seen.barred is not None and seen.barred[arm].any():
        told = [f"breaks the SLO {where(space, seen.barred[arm])}"]
    if leaders is None:
        known = any(launch.arm == arm for launch in seen.launches)
        return [*told, "measured" if known else "not measured yet"]
    leads = leaders.lead == arm
    rival = leaders.risk[arm] > now.aim.error / (2 * len(space.places))
    told += [f"leads {where(space, leads)}"] if leads.any() else []
    if not now.decided and rival.any():
        chance = percent(min(float(leaders.risk[arm].max()), 1.0), sign=False)
        return [*told, f"may win {where(space, rival)} (chance {chance} at most)"]
    if not now.decided and leaders.dropped(now.aim.error)[arm]:
        return [*told, "cannot win any more"]
    return told if leads.any() else [*told, "behind"]


def _place_outcomes(now: SearchState) -> tuple[PlaceOutcome, ...]:
    if now.belief is None or now.now is None:
        return ()
    space, leaders, share = now.space, now.now, now.aim.error / len(now.space.places)
    gain = promised(now.belief, leaders.lead, np.full(len(space.places), BASELINE))
    found = []
    for at, place in enumerate(space.places):
        lead, rival = int(leaders.lead[at]), int(leaders.risk[:, at].argmax())
        behind, chance = leaders.behind[:, at], float(leaders.of_place[at])
        settled = now.decided or chance <= share
        alike = np.flatnonzero((behind < 0) & (behind >= -np.log1p(now.aim.stake)))
        found.append(
            PlaceOutcome(
                place.traffic, place.load, space.arms[lead].label,
                *gain.ratios(at), chance, settled, None if settled else space.arms[rival].label,
                tuple(space.arms[arm].label for arm in alike),
                meets=bool(np.isfinite(behind[lead])),
            )
        )  # fmt: skip
    return tuple(found)


def _step(now: SearchState, step: Next) -> LaunchStep:
    return LaunchStep(
        now.space.arms[step.arm].label, where(now.space, step.places), step.minutes, step.why,
        None if now.now is None else now.now.open,
    )  # fmt: skip


def _with_words(
    bare_report: SearchReport, now: SearchState, gone: Mapping[str, str]
) -> SearchReport:
    report = replace(
        bare_report, found=_place_outcomes(now), decided=now.decided, dropped=now.dropped,
        out=tuple(f"{arm} ({why})" for arm, why in gone.items()), candidates=candidates(now, gone),
    )  # fmt: skip
    doubtful = isinstance(now.step, End) or (now.chance is not None and now.chance < UNLIKELY)
    more = now.settling() if doubtful and not now.decided else None
    used_up: tuple[str, ...] = ()
    if now.freely is not None and now.freely >= UNLIKELY:
        # Arms that can still win had all launches that the study allows, and more of them would do.
        closed = (now.space.arms[at].label for at in sorted(now.seen.closed))
        used_up = tuple(arm for arm in closed if arm not in now.dropped)
    return replace(report, headline=headline(report, more), outlook=outlook(report, more, used_up))


# --- A search that is under way.


def live(
    reader: Reader | None,
    planned: SearchPlan,
    terms: SearchTerms,
    out: tuple[ExcludedArm, ...] = (),
    lost_min: float = 0.0,
) -> LiveSearch:
    """Return what comes next. ``reader``: the warehouse of the drops so far, None before the first;
    ``out``: arms that did not start or did not hold; ``lost_min``: minutes of what failed.

    Raises InvalidInput for a budget that is too small to measure every method once, and where the
    study has no launch left for what must be measured.
    """
    space = bare(planned)
    if reader is not None:
        found = measured(reader, planned.study, space, terms)
    else:
        none = np.full((len(space.arms), len(space.places), 1), np.nan)
        unmeasured = acceptance_lengths(space, none[..., 0], none, ())
        found = MeasuredStudy(space, SeenLaunches((), unmeasured), frozenset())
    # Those launches of which no cell was measured, nor of any later one.
    left = {
        arm: ids[1 + max((at for at, name in enumerate(ids) if name in found.ids), default=-1) :]
        for arm, ids in planned.launches.items()
    }
    gone = {one.arm: one.why for one in out if one.arm != planned.arms[0].label}
    labels = [arm.label for arm in found.space.arms]
    seen = replace(
        found.seen, out=frozenset(at for at, label in enumerate(labels) if label in gone),
        closed=frozenset(at for at, label in enumerate(labels) if not left[label]),
        left=tuple(len(left[label]) for label in labels), lost_min=lost_min,
    )  # fmt: skip
    space, seen = of_traffic(found.space, seen, terms)
    # The share of the launches' minutes that money is paid for.
    paid = found.abreast if planned.one_machine else 1.0
    most = space.grid_minutes(min(planned.repeats, GRID_REPEATS))
    if terms.budget_min is not None:
        most = terms.budget_min / (paid if terms.by_money else 1.0)
    least = sum(step.minutes for step in screening(space, seen.out))
    # Of one that has begun more is known by what was measured: it ends open, and says so.
    if least > most and not seen.launches:
        raise InvalidInput(
            f"--budget: {most:.0f} minutes are too few to measure every method once; the "
            f"least that would do is about {least:.0f}min."
        )
    now = state(space, seen, Aim(terms.stake, terms.error, most), planned.at_once)
    minutes = spent(space, seen)
    usd = None if planned.usd_per_min is None else minutes * paid * planned.usd_per_min
    steps = tuple(
        LaunchStep(
            space.arms[launch.arm].label, where(space, launch.measured),
            space.minutes(launch.measured), "measured", None,
        )
        for launch in seen.launches
    )  # fmt: skip
    told = SearchReport(
        planned.study, None, terms, steps, (), False,
        ended(now.step, measuring=True) if isinstance(now.step, End) else UNDER_WAY,
        minutes, space.grid_minutes(GRID_REPEATS), (), (), "", usd=usd, chance=now.chance,
    )  # fmt: skip
    told = _with_words(told, now, gone)
    best = rival = None
    if told.decided and now.belief is not None:
        best = winner(space, seen, now.belief)
        rival = runner_up(space, seen, now.belief, best)
        told = replace(told, headline=told.headline + _for_all(now, best))
    orders = _orders(now, left, found.space, planned, terms)
    return LiveSearch(orders, told, best, rival, (space, seen), _troubles(found, now))


def _orders(
    now: SearchState,
    left: Mapping[str, tuple[str, ...]],
    places: Space,
    planned: SearchPlan,
    terms: SearchTerms,
) -> tuple[LaunchOrder, ...]:
    """The launches in the words of the study, each with an id of its own. The cells of one are all loads of
    some datasets, so what lies between them is measured along."""
    mix = mix_of(terms, places)
    turns: Counter[str] = Counter()
    orders = []
    for step in now.batch:
        label = now.space.arms[step.arm].label
        ids = left[label][turns[label] :]
        turns[label] += 1
        if not ids:
            raise InvalidInput(
                f"{label} was launched {len(planned.launches[label])} times, as often as `repeats` of the study allows, and no "
                "cell of it decides; `draftboard runs` shows their flags. Raise `repeats` to go on."
            )
        there = [now.space.places[at] for at in np.flatnonzero(step.places)]
        datasets = mix.share if mix else dict.fromkeys(place.traffic for place in there)
        loads = tuple(sorted({int(place.load) for place in there}))
        orders.append(LaunchOrder(ids[0], tuple(datasets), loads, _step(now, step)))
    return tuple(orders)


def _for_all(now: SearchState, best: Winner) -> str:
    """Say where the winner of the whole, which one server serves, is of another method than what leads
    there."""
    if now.now is None or best.config is None:
        return ""
    family = np.array([arm.family for arm in now.space.arms])
    other = family[now.now.lead] != family[best.arms]
    if not other.any():
        return ""
    return (
        f" One server serves all of it, so one method is taken, {best.words}; {where(now.space, other)} alone "
        "would take another. Where each dataset has a server of its own, search each by itself."
    )


def _troubles(study: MeasuredStudy, now: SearchState) -> tuple[str, ...]:
    step = 0.0 if now.belief is None else now.belief.drifting
    drifts = abs(step) * len(study.seen.launches) > np.log1p(now.aim.stake)
    each = f"It drifts: each launch is {percent(float(np.expm1(step)))} against the one before."
    return (*study.troubles, each) if drifts else study.troubles


# --- A search played over recorded launches.


def replay(
    reader: Reader, filters: Filters, terms: SearchTerms, at_once: int = 1
) -> tuple[SearchReport, ...]:
    """Play one search for each study and system that the filters keep, with up to ``at_once`` launches
    side by side. Beside each stands what the decision over every recorded launch takes."""
    known = ground(reader, filters)
    taken = {
        (one.subject, one.traffic.dataset or belief.NAME, level.load.value or 0): (
            "baseline" if level.num_speculative_tokens == 0 else level.arm
        )
        for one in decide(reader, terms.question(filters)).decisions
        if bool(one.traffic.mix) == bool(terms.mix)
        for level in one.levels
    }
    reports = []
    for study in recorded(reader, known, filters, terms):
        # Play the search: each launch that it asks for is the next recorded one of that arm.
        mix = mix_of(terms, study.space)
        launches: list[MeasuredLaunch] = []
        steps: list[LaunchStep] = []
        while True:
            space, seen = of_traffic(study.space, _seen(study, launches), terms)
            grid_min = space.grid_minutes(study.repeats)
            most = grid_min if terms.budget_min is None else terms.budget_min
            now = state(space, seen, Aim(terms.stake, terms.error, most), at_once)
            if any(not seen.left[step.arm] for step in now.batch if seen.left):
                # Of a mix, launches that lack a dataset say nothing, however many were recorded.
                now = replace(now, steps=End(False, "nothing left"))
            if isinstance(now.step, End):
                break
            for step in now.batch:
                used = sum(launch.arm == step.arm for launch in launches)
                launch = study.launches[step.arm][used]
                places = step.places if mix is None else unmixed(study.space, mix, step.places)
                launches.append(replace(launch, speed=np.where(places, launch.speed, np.nan)))
                steps.append(_step(now, step))
        played = SearchReport(
            study.system.study, study.system.model, terms, tuple(steps), (), False, ended(now.step),
            sum(step.minutes for step in steps), grid_min, (), study.left_out, "", system=study.system,
        )  # fmt: skip
        report = _with_words(played, now, {})
        found = tuple(
            replace(place, by_all=taken.get((study.system, place.dataset, place.load)))
            for place in report.found
        )
        reports.append(replace(report, found=found))
    return tuple(reports)


def _seen(study: RecordedStudy, launches: Sequence[MeasuredLaunch]) -> SeenLaunches:
    """Return what is known after some of the recorded launches. Where an arm that was measured breaks the
    SLO is told by all that was recorded there."""
    arms = range(len(study.space.arms))
    played = Counter(launch.arm for launch in launches)
    left = tuple(len(study.launches.get(arm, ())) - played[arm] for arm in arms)
    barred = None
    if study.broken is not None:
        known = np.zeros(study.broken.shape, dtype=np.bool_)
        for launch in launches:
            known[launch.arm] |= launch.measured
        barred = np.asarray(study.broken & known)
    return SeenLaunches(
        tuple(launches),
        acceptance_lengths(study.space, study.own, study.by_position, set(played)),
        frozenset(arm for arm in arms if not study.launches.get(arm)),
        frozenset(arm for arm in arms if not left[arm]), barred, left,
    )  # fmt: skip
