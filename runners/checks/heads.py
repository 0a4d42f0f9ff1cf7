"""Whether a draft is of the kind that its method drafts with; vLLM finds out after it has loaded it."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation, configurations
from runners.checks.methods import method
from runners.models.heads import is_called, is_eagle, predicts_more
from runners.models.model_files import ModelFiles
from runners.planning.plan import Launch

CHECK = "heads"
_WITH_A_DRAFT = ("eagle", "eagle3", "medusa", "mlp_speculator", "draft_model")


def check(situation: Situation) -> Iterator[Finding]:
    """Check once for each arm that its draft is of the kind that its method needs."""
    if situation.plan is None:
        return
    found = [
        finding
        for launch in configurations(situation.plan)
        for finding in _problems(situation, launch)
    ]
    yield from dict.fromkeys(found)


def _problems(situation: Situation, launch: Launch) -> Iterator[Finding]:
    named, draft = method(launch), situation.draft(launch)
    arm = launch.variant.arm
    if named in _WITH_A_DRAFT and "model" not in (launch.variant.speculative_config or {}):
        yield _blocker(
            f"The arm {arm} drafts by {named} and names no draft.",
            "Name it: speculative_config: {model: …}.",
        )
    elif named in ("eagle", "eagle3") and draft is not None and is_eagle(draft) is False:
        yield _other(arm, draft, "an EAGLE head", "method: draft_model")
    elif named in ("medusa", "mlp_speculator") and draft is not None:
        if is_called(draft, named) is False:
            yield _other(arm, draft, f"a {named} head", "method: draft_model")
    elif named is not None and named.endswith("mtp"):
        yield from _mtp(arm, draft or situation.target())


def _other(arm: str, draft: ModelFiles, wanted: str, instead: str) -> Finding:
    return _blocker(
        f"The arm {arm} needs {wanted}, and {draft.model} is a model of its own.",
        f"Name a draft that is {wanted}, or write {instead}.",
    )


def _mtp(arm: str, model: ModelFiles | None) -> Iterator[Finding]:
    if model is not None and predicts_more(model) is False:
        yield _blocker(
            f"The arm {arm} drafts by layers for multi-token prediction, and {model.model} has "
            "none.",
            "Take another method (ngram, or a draft), or a target that was trained with them.",
        )


def _blocker(said: str, fix: str) -> Finding:
    return Finding(CHECK, "blocker", said, fix)
