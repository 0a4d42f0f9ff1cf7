"""Target and draft speak in token numbers: one vocabulary, or speculation silently fails."""

from collections.abc import Iterator
from pathlib import Path

from runners.checks.finding import Finding, Situation, configurations
from runners.checks.methods import method
from runners.planning.plan import Launch
from runners.planning.study import Study
from runners.surroundings import models
from runners.surroundings.models import ModelFiles, text_config

CHECK = "tokenizers"
_SAME_MODEL = "Take a draft that was made for this target, or a target and draft of one family."


def check(situation: Situation) -> Iterator[Finding]:
    """Check the target's own tokenizer, then each draft against it, once."""
    study, plan, target = situation.study, situation.plan, situation.target()
    if study is None or plan is None or target is None:
        return
    own = _tokenizer_folder(study, target)
    yield from _target(study, target, own)
    seen: set[str] = set()
    for launch in configurations(plan):
        draft = situation.draft(launch)
        if draft is not None and draft.model not in seen:
            seen.add(draft.model)
            yield from _pair(launch, target, draft, own)


def _target(study: Study, target: ModelFiles, own: Path | None) -> Iterator[Finding]:
    if own is None:
        return  # The memory check says that the model is not here.
    if study.target.engine_args.get("skip-tokenizer-init"):
        return
    if models.read_vocabulary(own) is None and target.origin in {"folder", "cache"}:
        yield Finding(
            CHECK,
            "blocker",
            f"{own} has no tokenizer.",
            "Put the tokenizer's files there, or name another under target.tokenizer.",
        )
    chat = study.request.format == "chat_completions"
    if chat and "chat-template" not in _names(study) and not models.has_chat_template(own):
        yield Finding(
            CHECK,
            "blocker",
            f"Requests are chats, and the tokenizer of {target.model} has no chat template, so that "
            "vLLM would refuse each one.",
            "Set request.format: text_completions, or engine_args: {chat-template: FILE}.",
        )


def _names(study: Study) -> set[str]:
    given = {**study.target.engine_args}
    for arm in study.arms:
        given |= arm.engine_args
    return {name.lstrip("-").replace("_", "-") for name in given}


def _tokenizer_folder(study: Study, target: ModelFiles) -> Path | None:
    """Return where the server takes its tokenizer from; None where that is not on this machine."""
    named = study.target.tokenizer
    if named is None:
        return target.folder
    folder = Path(study.located(named))
    return folder if folder.is_dir() else None


def _pair(
    launch: Launch, target: ModelFiles, draft: ModelFiles, own: Path | None
) -> Iterator[Finding]:
    if draft.folder is None or own is None or target.config is None or draft.config is None:
        missing = draft if draft.folder is None or draft.config is None else target
        yield Finding(
            CHECK,
            "unknown",
            f"Whether {draft.model} fits {target.model} is unknown: "
            f"{(missing.reason or 'its files cannot be read').rstrip('.')}.",
            "Fetch both models into the cache of this machine (hf download MODEL) and ask again.",
        )
        return
    problems = [*_sizes(launch, target, draft), *_words(launch, draft, own)]
    yield from problems
    if not any(problem.status == "blocker" for problem in problems):
        yield Finding(CHECK, "ok", f"{draft.model} fits the vocabulary of {target.model}.")


def _sizes(launch: Launch, target: ModelFiles, draft: ModelFiles) -> Iterator[Finding]:
    """Compare the hidden sizes and the sizes of the vocabularies that the two configurations
    state."""
    ours, theirs = text_config(target.config or {}), text_config(draft.config or {})
    wanted = theirs.get("target_hidden_size")
    if wanted is not None and wanted != ours.get("hidden_size"):
        yield Finding(
            CHECK,
            "blocker",
            f"{draft.model} was made for a target of hidden size {wanted}, and {target.model} has "
            f"{ours.get('hidden_size')}.",
            _SAME_MODEL,
        )
    sizes = ours.get("vocab_size"), theirs.get("vocab_size")
    if None not in sizes and sizes[0] != sizes[1] and _is_model(launch):
        yield Finding(
            CHECK,
            "blocker",
            f"{target.model} has a vocabulary of {sizes[0]} and {draft.model} of {sizes[1]}, so that "
            "vLLM will not start.",
            f"{_SAME_MODEL} For method draft_model, use_heterogeneous_vocab: true allows others.",
        )


def _words(launch: Launch, draft: ModelFiles, own: Path) -> Iterator[Finding]:
    """Compare the tokens themselves. A head without a tokenizer of its own uses the target's."""
    assert draft.folder is not None
    ours, theirs = models.read_vocabulary(own), models.read_vocabulary(draft.folder)
    if theirs is None or ours is None or _mixes(launch):
        return
    found = models.vocabulary_difference(ours, theirs)
    if found is None:
        yield Finding(
            CHECK,
            "unknown",
            f"The tokenizers of target and {draft.model} are files of different kinds.",
            "Compare them with the library that made them.",
        )
    elif not found.is_none:
        yield Finding(
            CHECK,
            "blocker" if _is_model(launch) and found.renumbered else "warning",
            f"The tokenizer of {draft.model} is another one than the target's: {found.renumbered} "
            f"tokens under other numbers, {found.only_second} that the target lacks, "
            f"{found.only_first} that the draft lacks; what it drafts would not be accepted.",
            _SAME_MODEL,
        )


def _is_model(launch: Launch) -> bool:
    """Return whether the draft is a language model of its own, not a head on the target's
    vocabulary."""
    return method(launch) in {None, "draft_model"} and not _mixes(launch)


def _mixes(launch: Launch) -> bool:
    return bool((launch.variant.speculative_config or {}).get("use_heterogeneous_vocab"))
