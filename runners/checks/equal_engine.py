"""What a speculative method switches off in the installed vLLM, so that two engines are compared."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation, configurations, engine_arguments
from runners.checks.methods import method
from runners.planning.plan import Launch
from runners.planning.study import SWITCHES, Switch

CHECK = "engines alike"
_WORDS: dict[Switch, str] = {
    "async-scheduling": "asynchronous scheduling", "model-runner": "the second model runner",
}  # fmt: skip


def check(situation: Situation) -> Iterator[Finding]:
    """Name each arm whose method switches off another part of vLLM than the study does for a
    baseline with equal engine."""
    study = situation.study
    if study is None or situation.plan is None:
        return
    wanted = study.equal_engine
    for launch in configurations(situation.plan):
        off = [one for one in SWITCHES if _switches_off(situation, launch, one)]
        if not off or set(off) == set(wanted):
            continue
        kept = f"equal_engine switches off {_named(wanted)}" if wanted else "the baseline keeps it"
        every = "true" if len(off) == len(SWITCHES) else f"[{', '.join(off)}]"
        yield Finding(
            CHECK,
            "warning",
            f"The arm {launch.variant.name} drafts by {method(launch)}, with which this vLLM "
            f"switches off {_named(off)}; {kept}: two engines are compared.",
            f"Write equal_engine: {every} in the study: a baseline without it is measured as well.",
        )


def _switches_off(situation: Situation, launch: Launch, switch: Switch) -> bool:
    """Return whether an arm's method switches this off, and the study says nothing of it. Without
    a GPU there is but the first model runner."""
    assert situation.study is not None
    stated = engine_arguments(situation.study, launch) | situation.study.environment
    known = {name for part in SWITCHES[switch] for name in part} & stated.keys()
    there = switch != "model-runner" or situation.on_gpu is True
    return there and not known and method(launch) in situation.engine.switches_off.get(switch, ())


def _named(switches: tuple[Switch, ...] | list[Switch]) -> str:
    return " and ".join(_WORDS[one] for one in switches)
