"""What a speculative method switches off in the installed vLLM, so that two engines are compared."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation, configurations, engine_arguments
from runners.checks.methods import method
from runners.planning.equal_engine import Switch, chosen, switched_off
from runners.planning.study import Study

CHECK = "engines alike"
_WORDS: dict[Switch, str] = {
    "async-scheduling": "asynchronous scheduling", "model-runner": "its second model runner",
}  # fmt: skip


def check(situation: Situation) -> Iterator[Finding]:
    """Name each arm whose method switches off what the baseline keeps, and what is switched off
    for no arm's sake."""
    known, study = situation.engine.switches_off, situation.study
    if known is None or study is None or situation.plan is None:
        return
    wanted = chosen(study.equal_engine)
    needed: dict[Switch, None] = {}
    for launch in configurations(situation.plan):
        given = engine_arguments(study, launch)
        off = [
            one
            for one in _WORDS
            if method(launch) in known.get(one, ()) and _is_open(situation, one, given)
        ]
        needed |= dict.fromkeys(off)
        if set(off) - set(wanted):
            yield _warning(
                f"The arm {launch.variant.name} drafts by {method(launch)}, with which this vLLM "
                f"switches off {_named(off)}: the baseline keeps it, so the two run different "
                "engines.",
                f"Write {_key(off)} in the study: a baseline without it is measured as well.",
            )
    idle = [one for one in wanted if one not in needed]
    if idle:
        said = f"equal_engine switches off {_named(idle)}, which no method of this study does here."
        kept = [one for one in wanted if one in needed]
        yield _warning(said, f"Write {_key(kept)}." if kept else "Leave equal_engine out.")


def _is_open(situation: Situation, switch: Switch, given: dict[str, object]) -> bool:
    """Return whether nothing but the method decides: the study says it for no arm."""
    arguments, variables = switched_off((switch,))
    study: Study | None = situation.study
    stated = {**given, **({} if study is None else study.environment)}
    # Without a GPU there is but the first model runner.
    return not (stated.keys() & {*arguments, *variables}) and (
        switch != "model-runner" or situation.on_gpu is True
    )


def _named(switches: list[Switch]) -> str:
    return " and ".join(_WORDS[one] for one in switches)


def _key(switches: list[Switch]) -> str:
    every = len(switches) == len(_WORDS)
    return "equal_engine: true" if every else f"equal_engine: [{', '.join(switches)}]"


def _warning(said: str, fix: str) -> Finding:
    return Finding(CHECK, "warning", said, fix)
