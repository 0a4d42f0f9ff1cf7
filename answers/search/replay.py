"""A search played over recorded launches: what it would have measured, decided and cost."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analysis.search.prior import NAME as MIX
from analysis.search.prior import lengths, unmixed
from analysis.search.race import End, State, needed, state
from analysis.search.space import Aim, Launch, Seen
from analysis.service.slo import parse
from answers.decide.answer import decide
from answers.decide.values import Question, Subject
from answers.ground import Asked, ground
from answers.search.counted import bounded
from answers.search.found import candidates, found_at, mix_of, of_traffic, step_of
from answers.search.recorded import LINE, Read, Recorded, recorded
from answers.search.values import Played, Step, Terms
from answers.search.words import ended, headline
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader


def replay(reader: Reader, filters: Filters, terms: Terms, at_once: int = 1) -> tuple[Played, ...]:
    """Play one search for each study and system that the filters keep, with up to ``at_once`` launches
    side by side."""
    known = ground(reader, Asked(filters))
    slo = None if terms.slo is None else parse(terms.slo)
    read = Read(
        queries.acceptance_by_position(reader, filters).to_pandas(), LINE[terms.latency],
        slo, None if slo is None else bounded(reader, filters, slo),
    )  # fmt: skip
    core = _core(reader, terms.question(filters))
    played = (play(one, terms, at_once) for one in recorded(known, read))
    return tuple(_beside(one, core) for one in played)


Core = dict[tuple[Subject, str, float], str]


def _core(reader: Reader, question: Question) -> Core:
    """Return (system, dataset, load) -> the arm that the decision takes there."""
    return {
        (one.subject, one.traffic.dataset or MIX, level.load.value or 0): (
            "baseline" if level.num_speculative_tokens == 0 else level.arm
        )
        for one in decide(reader, question).decisions
        if bool(one.traffic.mix) == bool(question.mix)
        for level in one.levels
    }


def play(one: Recorded, terms: Terms, at_once: int = 1) -> Played:
    """Play the search: each launch that it asks for is the next recorded one of that arm."""
    mix = mix_of(terms, one.space)
    launches: tuple[Launch, ...] = ()
    used = dict.fromkeys(one.launches, 0)
    steps: list[Step] = []
    while True:
        space, seen = of_traffic(one.space, _seen(one, launches, used), terms)
        most = space.grid_minutes(one.repeats)
        aim = Aim(terms.stake, terms.error, most if terms.budget_min is None else terms.budget_min)
        now = state(space, seen, aim, at_once)
        if any(not seen.left[step.arm] for step in now.batch if seen.left):
            # Of a mix, launches that lack a dataset say nothing, however many were recorded.
            now = replace(now, step=End(False, "nothing left"), beside=())
        if isinstance(now.step, End):
            return _played(replace(one, space=space), terms, (aim, seen, now), steps)
        for step in now.batch:
            launch = one.launches[step.arm][used[step.arm]]
            used[step.arm] += 1
            places = step.places if mix is None else unmixed(one.space, mix, step.places)
            launches = (*launches, replace(launch, speed=np.where(places, launch.speed, np.nan)))
            steps.append(step_of(space, now, step))


def _seen(one: Recorded, launches: tuple[Launch, ...], used: dict[int, int]) -> Seen:
    arms = range(len(one.space.arms))
    left = tuple(len(one.launches.get(a, ())) - used.get(a, 0) for a in arms)
    gone = frozenset(a for a in arms if not left[a])
    never = frozenset(a for a in arms if not one.launches.get(a))
    told = lengths(one.space, one.own, one.by_position, {x.arm for x in launches})
    return Seen(launches, told, never, gone, _barred(one, launches), left)


def _barred(one: Recorded, launches: tuple[Launch, ...]) -> NDArray[np.bool_] | None:
    """Return where an arm that was measured breaks the SLO, by all that was recorded there."""
    if one.broken is None:
        return None
    known = np.zeros(one.broken.shape, dtype=np.bool_)
    for launch in launches:
        known[launch.arm] |= launch.measured
    return np.asarray(one.broken & known)


def _played(
    one: Recorded, terms: Terms, reached: tuple[Aim, Seen, State], steps: list[Step]
) -> Played:
    aim, seen, now = reached
    assert isinstance(now.step, End)
    found = found_at(one.space, aim, now)
    dropped = [] if now.now is None else np.flatnonzero(now.now.dropped(aim.error)).tolist()
    told = Played(
        one.system.study, one.system.model, terms, tuple(steps), found, now.step.decided, ended(now.step),
        sum(step.minutes for step in steps), one.space.grid_minutes(one.repeats),
        tuple(one.space.arms[arm].label for arm in dropped), one.left_out, "",
        candidates=candidates((one.space, seen, aim), now, {}), system=one.system,
    )  # fmt: skip
    more = None
    if now.belief is not None and now.now is not None and not now.step.decided:
        more = needed(one.space, seen, (now.belief, now.now), aim)
    return replace(told, headline=headline(told, more))


def _beside(one: Played, core: Core) -> Played:
    """Return the search with what the decision over every recorded launch takes."""
    if one.system is None:
        return one
    found = (replace(x, by_all=core.get((one.system, x.dataset, x.load))) for x in one.found)
    return replace(one, found=tuple(found))
