"""Lengths: what a server may hold against what the model was made for and what requests ask."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation, configurations, engine_arguments
from runners.planning.plan import Launch
from runners.planning.study import Study
from runners.surroundings.models import context_length, token_count

CHECK = "lengths"
_ANYWAY = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def check(situation: Situation) -> Iterator[Finding]:
    """Check each server configuration's --max-model-len; a sentence is said once."""
    study, plan, target = situation.study, situation.plan, situation.target()
    if study is None or plan is None or target is None:
        return
    made_for = None if target.config is None else context_length(target.config)
    findings = [
        finding
        for launch in configurations(plan)
        for finding in _one(situation, study, launch, made_for)
    ]
    yield from dict.fromkeys(findings)


def _one(
    situation: Situation, study: Study, launch: Launch, made_for: int | None
) -> Iterator[Finding]:
    args = engine_arguments(study, launch)
    asked = token_count(args.get("max-model-len"))
    longest = asked or made_for
    stretched = situation.env.get(_ANYWAY) == "1" or "hf-overrides" in args
    if asked is not None and made_for is not None and asked > made_for and not stretched:
        yield Finding(
            CHECK,
            "blocker",
            f"max-model-len is {asked} and the model was made for {made_for} tokens, so that vLLM "
            "will not start.",
            f"Lower it, or set {_ANYWAY}: '1' in the study's environment if you know better.",
        )
    for name, answer in _answers(study, launch):
        if longest is not None and answer > longest:
            yield Finding(
                CHECK,
                "blocker",
                f"Dataset {name} asks for answers of up to {answer} tokens, and the server holds "
                f"{longest} with the prompt, so that vLLM refuses each request.",
                "Lower max_tokens, or raise engine_args max-model-len.",
            )


def _answers(study: Study, launch: Launch) -> list[tuple[str, int]]:
    """Return the datasets that a launch is measured on, with the cap of their answers where there
    is one."""
    names = dict.fromkeys(cell.dataset for cell in launch.cells)
    caps = [(name, study.dataset(name).max_tokens or study.request.max_tokens) for name in names]
    return [(name, cap) for name, cap in caps if cap is not None]
