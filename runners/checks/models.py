"""Target and draft: of the kind that the method needs, small enough, and of one vocabulary."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runners.checks.finding import CheckFinding, Situation, method_of, name_of
from runners.planning.plan import Launch, Plan, configurations
from runners.planning.study_file import Study
from runners.surroundings import machine, models

# --- Heads: whether a draft is of the kind that its method drafts with; vLLM finds out after it has
# loaded it.

#: A header of more is no header.
_LONGEST = 100 << 20
_LAYERS = (
    "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers",
    "mtp_num_layers",
)  # fmt: skip
#: Families whose prediction layers no number in their configuration tells of (vLLM 0.32).
_UNTOLD = ("longcat", "step3", "mimo", "gemma4", "minimax_m3", "dots3", "nemotron")
_WITH_A_DRAFT = ("eagle", "eagle3", "medusa", "mlp_speculator", "draft_model")


def heads(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Check for each arm that its draft is of the kind that its method needs."""
    for launch in configurations(plan):
        method, draft, arm = method_of(launch), situation.draft(plan, launch), launch.variant.arm
        model, wanted = draft or situation.target(plan), None
        if method in _WITH_A_DRAFT and "model" not in (launch.variant.speculative_config or {}):
            yield CheckFinding(
                "blocker",
                f"The arm {arm} drafts by {method} and names no draft.",
                "Name it: speculative_config: {model: …}.",
            )
        elif method in ("eagle", "eagle3") and draft is not None:
            wanted = "an EAGLE head" if _is_no_eagle(draft) else None
        elif method in ("medusa", "mlp_speculator") and draft is not None:
            other = draft.config is not None and not _says(draft.config, method)
            wanted = f"a {method} head" if other else None
        elif (method or "").endswith("mtp") and _predicts_one(model):
            yield CheckFinding(
                "blocker",
                f"The arm {arm} drafts by layers for multi-token prediction, and {model.model} "
                "has none.",
                "Take another method (ngram, or a draft), or a target that was trained with them.",
            )
        if draft is not None and wanted is not None:
            yield CheckFinding(
                "blocker",
                f"The arm {arm} needs {wanted}, and {draft.model} is a model of its own.",
                f"Name a draft that is {wanted}, or write method: draft_model.",
            )


def _is_no_eagle(files: models.ModelFiles) -> bool:
    """Return whether it is known that a draft does not take the target's hidden states, as EAGLE's heads
    do."""
    if files.config is None or _says(files.config, "eagle"):
        return False
    names = None if files.folder is None else _tensor_names(files.folder)
    if names is not None:
        # The projection of a token and a hidden state: no other model has it.
        return not any("fc" in name.split(".") for name in names)
    layers = models.text_config(files.config).get("num_hidden_layers")
    # A head is one layer or two; more without a word about it is a model of its own.
    return isinstance(layers, int) and layers > 2


def _predicts_one(files: models.ModelFiles) -> bool:
    """Return whether it is known that a model has no layers that predict more than one token (MTP)."""
    if files.config is None:
        return False
    config = models.text_config(files.config)
    layers = [config[name] for name in _LAYERS if isinstance(config.get(name), int)]
    if layers:
        return not any(count > 0 for count in layers)
    untold = str(config.get("model_type", "")).startswith(_UNTOLD) or _says(files.config, "mtp")
    return not untold


def _says(config: Mapping[str, Any], word: str) -> bool:
    """Return whether a configuration holds a word in a key, the type, the architecture or what
    speculators write into it."""
    kind = [config.get(name) for name in ("model_type", "architectures", "speculators_model_type",
                                          "speculators_config")]  # fmt: skip
    return word in json.dumps([list(config), kind]).lower()


def _tensor_names(folder: Path) -> frozenset[str] | None:
    """Return the names of the tensors in a folder's safetensors files; None where there are none to
    be read."""
    names: set[str] = set()
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with file.open("rb") as opened:
                length = int.from_bytes(opened.read(8), "little")
                header = json.loads(opened.read(length)) if 0 < length <= _LONGEST else {}
        except (OSError, ValueError):
            return None
        names |= set(header) - {"__metadata__"} if isinstance(header, dict) else set()
    return frozenset(names) if names else None


# --- Memory: what is free against weights, draft and KV cache, for each server configuration.

#: The default of vLLM 0.32; what the installed one says wins.
_SHARE = 0.92
#: Prompt tokens of a request, and an answer without a cap, where nothing is known of either.
_PROMPT, _ANSWER = 1024, 1024


def memory(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Check each server configuration; first, that its models can be loaded at all."""
    target, made_up = situation.target(plan), plan.study.makes_weights_up
    for model in situation.models.values():
        if model.config is None or not (model.weight_bytes or made_up):
            missing = "config.json" if model.config is None else "whole set of weight files"
            why = model.reason or f"{model.folder} has no {missing}"
            fix = "Correct the path in the study, or make the model (docs/lab.md for the lab's)."
            if not model.is_local:
                fix = (
                    f"Run `hf download {model.model}` where the hub can be reached (a gated model needs "
                    "HF_TOKEN), and set HF_HOME to that cache."
                )
            yield CheckFinding(
                "blocker", f"The model {model.model} cannot be loaded: {why.rstrip('.')}.", fix
            )
    if target.config is None:
        return
    for launch in configurations(plan):
        size = launch.tensor_parallel_size
        count = models.text_config(target.config).get("num_attention_heads")
        if isinstance(count, int) and count % size:
            yield CheckFinding(
                "blocker",
                f"{name_of(launch)}: {count} attention heads cannot be split over {size} GPUs.",
                "Choose a tensor_parallel_size that divides them.",
            )
        draft = situation.draft(plan, launch)
        if draft is None or draft.config is not None:
            arguments = plan.study.engine_arguments(launch.variant)
            needed = models.memory_estimate(
                target, draft, size, arguments, launch.variant.speculative_config
            )
            yield _fits(situation, plan.study, launch, needed, arguments)


def _fits(
    situation: Situation,
    study: Study,
    launch: Launch,
    needed: models.MemoryEstimate,
    arguments: Mapping[str, Any],
) -> CheckFinding:
    name = name_of(launch)
    if needed.weights is None or needed.cache_bytes(1) is None:
        return CheckFinding(
            "unknown",
            f"{name}: config.json does not say the sizes from which memory is estimated.",
            "Compare the weights with the memory by hand.",
        )
    share = situation.engine.memory_share or _SHARE
    cache = models.token_count(arguments.get("kv-cache-memory-bytes"))
    if situation.on_gpu is False:
        return _on_cpu(situation, study, launch, needed, cache, share)
    if not situation.gpus:
        return CheckFinding(
            "unknown",
            f"{name}: needs {_parts(needed)} on each GPU, and no GPU can be read here.",
        )
    sizes = [(gpu.memory_bytes, gpu.free_bytes) for gpu in situation.gpus]
    known = [(total, free) for total, free in sizes if total is not None and free is not None]
    if len(known) < len(sizes):
        return CheckFinding("unknown", f"{name}: the GPUs do not say their memory.")
    total, free = min(known)
    share = float(arguments.get("gpu-memory-utilization") or share)
    if free < share * total:
        return CheckFinding(
            "blocker",
            f"{name}: vLLM wants {share:.0%} of {models.gib(total)} and {models.gib(free)} is free, so "
            "that it will not start.",
            "End what else runs on the GPU, or lower engine_args gpu-memory-utilization.",
        )
    left = round(share * total) - needed.weights - models.WORKING_BYTES
    return _holds(study, launch, needed, left if cache is None else cache)


def _on_cpu(
    situation: Situation,
    study: Study,
    launch: Launch,
    needed: models.MemoryEstimate,
    cache: int | None,
    share: float,
) -> CheckFinding:
    space = situation.env.get("VLLM_CPU_KVCACHE_SPACE")
    cache = int(space) * models.GIB if space and space.isdigit() else cache
    free = machine.memory_bytes("MemAvailable")
    if cache is None or free is None:
        return CheckFinding(
            "warning",
            f"{name_of(launch)}: without VLLM_CPU_KVCACHE_SPACE vLLM takes {share:.0%} "
            "of the memory of this machine.",
            "Set environment: {VLLM_CPU_KVCACHE_SPACE: '1'} (GiB) in the study.",
        )
    # Three processes of vLLM on a CPU, measured with a model of a few megabytes.
    wanted = (needed.weights or 0) + cache + 3 * models.GIB
    if wanted > free:
        return CheckFinding(
            "blocker",
            f"{name_of(launch)}: needs about {models.gib(wanted)} of memory and {models.gib(free)} is free.",
            "Close other programs, or lower VLLM_CPU_KVCACHE_SPACE.",
        )
    return _holds(study, launch, needed, cache)


def _holds(study: Study, launch: Launch, needed: models.MemoryEstimate, room: int) -> CheckFinding:
    """Say whether the cache holds one longest sequence (vLLM insists) and the highest load, of
    requests of which only the cap of their answers is known.
    """
    longest, load = needed.max_model_len, max(cell.concurrency or 1 for cell in launch.cells)
    longest_bytes = needed.cache_bytes(longest) if longest is not None else None
    parts = f"{name_of(launch)}: {_parts(needed)}"
    if room <= 0 or (longest_bytes is not None and longest_bytes > room):
        return CheckFinding(
            "blocker",
            f"{parts} leave {models.gib(max(room, 0))} for the cache, and one sequence of {longest} tokens "
            f"takes {models.gib(longest_bytes or 0)}.",
            "Serve on more GPUs, lower engine_args max-model-len, or choose a smaller draft.",
        )
    typical = _PROMPT + (study.request.max_tokens or _ANSWER)
    typical = typical if longest is None else min(typical, longest)
    fitting = needed.sequences_in(room, typical) or 0
    held = f"{parts}; {models.gib(room)} of cache holds {fitting} requests of {typical} tokens"
    if fitting < load:
        return CheckFinding(
            "warning",
            f"{held}, fewer than the {load} that the study sends at once: some will wait.",
            "Expect it in time to first token, or serve with more memory.",
        )
    return CheckFinding("ok", f"{held}.")


def _parts(needed: models.MemoryEstimate) -> str:
    weights = f"{'' if needed.exact else 'about '}{models.gib(needed.target_bytes or 0)} of weights"
    draft = f", {models.gib(needed.draft_bytes)} of draft" if needed.draft_bytes else ""
    return f"{weights}{draft} and an assumed {models.gib(models.WORKING_BYTES)} to work with"


# --- Lengths: what a server may hold against what the model was made for and what requests ask.

_ANYWAY = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def lengths(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Check each server configuration's --max-model-len."""
    study, target = plan.study, situation.target(plan)
    made_for = None if target.config is None else models.context_length(target.config)
    for launch in configurations(plan):
        arguments = study.engine_arguments(launch.variant)
        stated = models.token_count(arguments.get("max-model-len"))
        longest = stated or made_for
        stretched = situation.env.get(_ANYWAY) == "1" or "hf-overrides" in arguments
        if stated is not None and made_for is not None and stated > made_for and not stretched:
            yield CheckFinding(
                "blocker",
                f"max-model-len is {stated} and the model was made for {made_for} tokens, so that "
                "vLLM will not start.",
                f"Lower it, or set {_ANYWAY}: '1' in the study's environment if you know better.",
            )
        for name in dict.fromkeys(cell.dataset for cell in launch.cells):
            dataset = study.dataset(name)
            # The last turn of a session is sent with all answers before it.
            answer = (dataset.max_tokens or study.request.max_tokens or 0) * dataset.turns
            # Of a stated limit `plan` says what prompts of a stated length need.
            prompt = sum(dataset.prompt_tokens) if stated is None else 0
            if longest is not None and answer and prompt + answer > longest:
                of = " a session" * (dataset.turns > 1) or f" to prompts of {prompt}" * (prompt > 0)
                yield CheckFinding(
                    "blocker",
                    f"Dataset {name} asks for answers of up to {answer} tokens{of}, and the server holds {longest} "
                    "with the prompt, so that vLLM refuses each request.",
                    "Lower max_tokens or prompt_tokens, or raise engine_args max-model-len.",
                )


# --- Target and draft speak in token numbers: one vocabulary, or speculation silently fails.

_SAME_MODEL = "Take a draft that was made for this target, or a target and draft of one family."


def tokenizers(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Check the target's own tokenizer, then each draft against it, once."""
    study, target = plan.study, situation.target(plan)
    own = target.folder  # Where the server takes its tokenizer from, if it is on this machine.
    if study.target.tokenizer is not None:
        folder = Path(study.located(study.target.tokenizer))
        own = folder if folder.is_dir() else None
    given = [study.engine_arguments(arm) for arm in study.variants]
    # Without a folder the memory check says that the model is not here.
    if own is not None and not any(each.get("skip-tokenizer-init") for each in given):
        if models.read_vocabulary(own) is None and target.origin in {"folder", "cache"}:
            yield CheckFinding(
                "blocker",
                f"{own} has no tokenizer.",
                "Put the tokenizer's files there, or name another under target.tokenizer.",
            )
        stated = any("chat-template" in each for each in given)
        chat = study.request.format == "chat_completions"
        if chat and not stated and not models.has_chat_template(own):
            yield CheckFinding(
                "blocker",
                f"Requests are chats, and the tokenizer of {target.model} has no chat template, so "
                "that vLLM would refuse each one.",
                "Set request.format: text_completions, or engine_args: {chat-template: FILE}.",
            )
    compared: set[str] = set()
    for launch in configurations(plan):
        draft = situation.draft(plan, launch)
        if draft is not None and draft.model not in compared:
            compared.add(draft.model)
            yield from _pair(launch, target, draft, own)


def _pair(
    launch: Launch, target: models.ModelFiles, draft: models.ModelFiles, own: Path | None
) -> Iterator[CheckFinding]:
    if draft.folder is None or own is None or target.config is None or draft.config is None:
        missing = draft if draft.folder is None or draft.config is None else target
        yield CheckFinding(
            "unknown",
            f"Whether {draft.model} fits {target.model} is unknown: "
            f"{(missing.reason or 'its files cannot be read').rstrip('.')}.",
            "Fetch both models into the cache of this machine (hf download MODEL) and ask again.",
        )
        return
    mixes = bool((launch.variant.speculative_config or {}).get("use_heterogeneous_vocab"))
    # A language model of its own, not a head on the target's vocabulary.
    is_model = method_of(launch) in {None, "draft_model"} and not mixes
    problems = [*_sizes(target, draft, is_model)]
    if not mixes:
        problems += _vocabularies(draft, own, draft.folder, is_model)
    yield from problems
    if not any(problem.status == "blocker" for problem in problems):
        yield CheckFinding("ok", f"{draft.model} fits the vocabulary of {target.model}.")


def _sizes(
    target: models.ModelFiles, draft: models.ModelFiles, is_model: bool
) -> Iterator[CheckFinding]:
    ours, theirs = models.text_config(target.config or {}), models.text_config(draft.config or {})
    wanted = theirs.get("target_hidden_size")
    if wanted is not None and wanted != ours.get("hidden_size"):
        yield CheckFinding(
            "blocker",
            f"{draft.model} was made for a target of hidden size {wanted}, and {target.model} has "
            f"{ours.get('hidden_size')}.",
            _SAME_MODEL,
        )
    sizes = ours.get("vocab_size"), theirs.get("vocab_size")
    if None not in sizes and sizes[0] != sizes[1] and is_model:
        yield CheckFinding(
            "blocker",
            f"{target.model} has a vocabulary of {sizes[0]} and {draft.model} of {sizes[1]}, so that "
            "vLLM will not start.",
            f"{_SAME_MODEL} For method draft_model, use_heterogeneous_vocab: true allows others.",
        )


def _vocabularies(
    draft: models.ModelFiles, own: Path, folder: Path, is_model: bool
) -> Iterator[CheckFinding]:
    """Compare the tokens themselves. A head without a tokenizer of its own uses the target's."""
    ours, theirs = models.read_vocabulary(own), models.read_vocabulary(folder)
    if theirs is None or ours is None:
        return
    found = models.vocabulary_difference(ours, theirs)
    if found is None:
        yield CheckFinding(
            "unknown",
            f"The tokenizers of target and {draft.model} are files of different kinds.",
            "Compare them with the library that made them.",
        )
    elif any(found):
        renumbered, only_target, only_draft = found
        yield CheckFinding(
            "blocker" if is_model and renumbered else "warning",
            f"The tokenizer of {draft.model} is another one than the target's: {renumbered} "
            f"tokens under other numbers, {only_draft} that the target lacks, "
            f"{only_target} that the draft lacks; what it drafts would not be accepted.",
            _SAME_MODEL,
        )
