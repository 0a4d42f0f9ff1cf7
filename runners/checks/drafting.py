"""Settings of a draft that vLLM takes and then drops, refuses or reads otherwise than one thinks."""

from collections.abc import Iterator
from typing import Any

from runners.checks.finding import Finding, Situation, Status, configurations, engine_arguments
from runners.checks.methods import method
from runners.planning.plan import Launch
from warehouse.contract import TABLE

CHECK = "drafting"
_HIDDEN_STATES = ("eagle", "eagle3", "mtp", "dflash", "dspark")
_PARALLEL = ("eagle", "eagle3", "draft_model", "dflash", "dspark")
#: A draft that was trained to draft in parallel names the token that it drafts over.
_MASKS = ("mask_token_id", "dflash_config", "dspark_noise_token_id", "pard_token", "ptd_token_id")


def check(situation: Situation) -> Iterator[Finding]:
    """Check the drafting settings of each arm once."""
    if situation.plan is None:
        return
    found = [
        finding
        for launch in configurations(situation.plan)
        if launch.variant.speculative_config is not None
        for finding in _problems(situation, launch, launch.variant.speculative_config)
    ]
    yield from dict.fromkeys(found)


def _problems(situation: Situation, launch: Launch, config: dict[str, Any]) -> Iterator[Finding]:
    yield from _words(situation, launch, config)
    if config.get(TABLE) is not None:
        yield from _table(situation, launch)
    if config.get("parallel_drafting") is True:
        yield from _parallel(situation, launch)
    if config.get("enable_adaptive_verification") is True and method(launch) != "dspark":
        yield _finding(
            launch,
            "blocker",
            "asks for adaptive verification, which vLLM has for dspark alone",
            "Leave enable_adaptive_verification out, or draft by dspark.",
        )
    yield from _block_drop(situation, launch, config)


def _words(situation: Situation, launch: Launch, config: dict[str, Any]) -> Iterator[Finding]:
    for setting, known in situation.engine.choices.items():
        word = config.get(setting)
        if word is not None and word not in known:
            yield _finding(
                launch,
                "blocker",
                f"asks for {setting}: {word}, which this vLLM does not have",
                f"Write one of {', '.join(known)}, or install the vLLM that has it.",
            )


def _table(situation: Situation, launch: Launch) -> Iterator[Finding]:
    given = _arguments(situation, launch)
    ranks = given.get("data-parallel-size", 1)
    if isinstance(ranks, int) and ranks > 1:
        yield _finding(
            launch,
            "blocker",
            f"has a table of K, which vLLM takes away beside data parallelism ({ranks} ranks)",
            "Leave data-parallel-size out, or measure one K for all loads.",
        )
    second = (situation.study.environment if situation.study else {}).get(
        "VLLM_USE_V2_MODEL_RUNNER"
    )
    if situation.on_gpu and given.get("enforce-eager") is not True and second != "1":
        yield _finding(
            launch,
            "warning",
            "has a table of K, with which vLLM's first model runner leaves full CUDA graphs: it "
            "differs from one K in more than K",
            "Set VLLM_USE_V2_MODEL_RUNNER: '1' in the study's environment where the model allows it.",
        )


def _parallel(situation: Situation, launch: Launch) -> Iterator[Finding]:
    named, draft = method(launch), situation.draft(launch)
    if named is not None and named not in _PARALLEL:
        yield _finding(
            launch,
            "blocker",
            f"drafts by {named}, which cannot draft in parallel",
            f"Leave parallel_drafting out, or draft by one of {', '.join(_PARALLEL)}.",
        )
    elif draft is not None and draft.config and not any(name in draft.config for name in _MASKS):
        yield _finding(
            launch,
            "blocker",
            f"drafts in parallel, and {draft.model} was not trained for it: its configuration names "
            "no token to draft over",
            "Take a draft that was (PARD, P-EAGLE), or leave parallel_drafting out.",
        )


def _block_drop(situation: Situation, launch: Launch, config: dict[str, Any]) -> Iterator[Finding]:
    if config.get("disable_eagle_block_drop") is not True:
        return
    named = method(launch)
    cached = _arguments(situation, launch).get("enable-prefix-caching") is not False
    if (named is not None and named not in _HIDDEN_STATES) or not cached:
        why = f"drafts by {named}" if cached else "keeps no prefixes"
        yield _finding(
            launch,
            "warning",
            f"sets disable_eagle_block_drop and {why}: it has no effect",
            "Leave it out.",
        )


def _arguments(situation: Situation, launch: Launch) -> dict[str, Any]:
    return {} if situation.study is None else engine_arguments(situation.study, launch)


def _finding(launch: Launch, status: Status, said: str, fix: str) -> Finding:
    return Finding(CHECK, status, f"The arm {launch.variant.arm} {said}.", fix)
