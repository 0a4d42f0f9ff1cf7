"""Whether this vLLM knows the study's speculative methods, their settings and its arguments.

vLLM takes ``--speculative-config`` as it is and refuses a misspelt method only once the engine
starts, which may be after minutes of loading.
"""

import difflib
from collections.abc import Iterable, Iterator

from runners.checks.finding import Finding, Situation, configurations, name_of
from runners.planning.plan import Launch

CHECK = "methods"
#: What others call methods that vLLM has under another name.
_ELSEWHERE = {
    "pard": "method: draft_model with parallel_drafting: true",
    "parallel_draft": "method: draft_model with parallel_drafting: true",
    "prompt_lookup": "method: ngram",
    "lookahead": "method: ngram",
    "pld": "method: ngram",
    "assisted": "method: draft_model",
    "standalone": "method: draft_model",
    "eagle2": "method: eagle",
    "nextn": "method: mtp",
}
#: Below this two words share letters by chance ("pard", "dspark").
_ALIKE = 0.75


def check(situation: Situation) -> Iterator[Finding]:
    """Check the methods, settings and command lines of every server configuration."""
    if situation.plan is None:
        return
    launches = configurations(situation.plan)
    if situation.engine.methods is None:
        yield Finding(
            CHECK,
            "unknown",
            "vLLM could not be asked which speculative methods it knows.",
            "Name the vllm of a Python environment under executables.vllm.",
        )
    else:
        yield from _methods(situation, launches)
    yield from _refusals(situation, launches)


def _methods(situation: Situation, launches: list[Launch]) -> Iterator[Finding]:
    problems = [f for launch in launches for f in _problems(situation, launch)]
    yield from dict.fromkeys(problems)
    if not problems:
        used = sorted(
            {
                method(launch) or "the draft's own"
                for launch in launches
                if launch.variant.speculative_config is not None
            }
        )
        said = f"This vLLM knows {', '.join(used)}." if used else "The study speculates in no arm."
        yield Finding(CHECK, "ok", said)


def _problems(situation: Situation, launch: Launch) -> Iterator[Finding]:
    engine, config = situation.engine, launch.variant.speculative_config
    if config is None:
        return
    named = method(launch)
    if named is not None and named not in (engine.methods or ()):
        yield _unknown(launch.variant.arm, f"the speculative method {named}", named, engine.methods)
    for setting in config:
        if engine.settings is not None and setting not in engine.settings:
            said = f"the speculative setting {setting}"
            yield _unknown(launch.variant.arm, said, setting, engine.settings)
    if named == "suffix" and engine.suffix_decoding is False:
        yield Finding(
            CHECK,
            "blocker",
            f"The arm {launch.variant.arm} needs the package arctic-inference, which vLLM's "
            "environment lacks.",
            "Install arctic-inference into the environment of vLLM.",
        )


def _unknown(arm: str, what: str, word: str, known: Iterable[str] | None) -> Finding:
    have = sorted(known or ())
    near = difflib.get_close_matches(word, have, n=3, cutoff=_ALIKE)
    fix = f"Write {' or '.join(near)}" if near else f"It has {', '.join(have)}; write one of these"
    fix = f"Write {_ELSEWHERE[word.lower()]}" if word.lower() in _ELSEWHERE else fix
    return Finding(
        CHECK,
        "blocker",
        f"The arm {arm} asks for {what}, which this vLLM does not have.",
        f"{fix}, or install the vLLM that has it.",
    )


def _refusals(situation: Situation, launches: list[Launch]) -> Iterator[Finding]:
    for launch in launches:
        refusal = situation.engine.refusals.get(launch.launch_id)
        if refusal is not None:
            yield Finding(
                CHECK,
                "blocker",
                f"vLLM's own parser refuses the command of {name_of(launch)}: {refusal}.",
                "Correct engine_args of the target or the arm; `vllm serve --help=all` lists them.",
            )


def method(launch: Launch) -> str | None:
    """Return the method that an arm names; vLLM derives it from the draft where it is left out."""
    named = (launch.variant.speculative_config or {}).get("method")
    return None if named is None else str(named)
