"""Free memory against weights, draft and KV cache, for each server configuration of a study."""

from collections.abc import Iterator, Mapping
from typing import Any

from runners.checks.finding import Finding, Situation, configurations, engine_arguments, name_of
from runners.planning.plan import Launch
from runners.surroundings import machine
from runners.surroundings.models import (
    GIB,
    WORKING_BYTES,
    MemoryEstimate,
    ModelFiles,
    gib,
    memory_arguments,
    memory_estimate,
    text_config,
    token_count,
)

CHECK = "memory"
#: The default of vLLM 0.32; what the installed one says wins.
_SHARE = 0.92
#: Three processes of vLLM on a CPU, measured with a model of a few megabytes.
_CPU_PROCESSES = 3 * GIB
#: Prompt tokens of a request, and an answer without a cap, where nothing is known of either.
_PROMPT, _ANSWER = 1024, 1024


def check(situation: Situation) -> Iterator[Finding]:
    """Yield one finding for each server configuration; the same sentence is not said twice."""
    study, plan, target = situation.study, situation.plan, situation.target()
    if study is None or plan is None or target is None:
        return
    yield from _absent(situation)
    if target.config is None:
        return
    for launch in configurations(plan):
        yield from _heads(launch, target.config)
        draft = situation.draft(launch)
        if draft is None or draft.config is not None:
            args, drafting = engine_arguments(study, launch), launch.variant.speculative_config
            said = memory_arguments(launch.tensor_parallel_size, args, drafting)
            yield from _fits(situation, launch, memory_estimate(target, draft, said))


def _absent(situation: Situation) -> Iterator[Finding]:
    """Yield a finding for each model whose configuration or weights are neither here nor to be
    had."""
    for model in situation.models.values():
        if model.config is not None and (model.weight_bytes or _is_dummy(situation)):
            continue
        missing = "config.json" if model.config is None else "whole set of weight files"
        why = model.reason or f"{model.folder} has no {missing}"
        yield Finding(
            CHECK,
            "blocker",
            f"The model {model.model} cannot be loaded: {why.rstrip('.')}.",
            _get(model),
        )


def _is_dummy(situation: Situation) -> bool:
    """Return whether vLLM makes up the weights itself, the draft's too."""
    given = {} if situation.study is None else situation.study.target.engine_args
    return "dummy" in {given.get("load-format"), given.get("load_format")}


def _get(model: ModelFiles) -> str:
    if model.is_local:
        return "Correct the path in the study, or make the model (docs/lab.md for the lab's)."
    return (
        f"Run `hf download {model.model}` where the hub can be reached (a gated model needs "
        "HF_TOKEN), and set HF_HOME to that cache."
    )


def _heads(launch: Launch, config: Mapping[str, Any]) -> Iterator[Finding]:
    heads, size = text_config(config).get("num_attention_heads"), launch.tensor_parallel_size
    if isinstance(heads, int) and heads % size:
        yield Finding(
            CHECK,
            "blocker",
            f"{name_of(launch)}: {heads} attention heads cannot be split over {size} GPUs.",
            "Choose a tensor_parallel_size that divides them.",
        )


def _fits(situation: Situation, launch: Launch, needed: MemoryEstimate) -> Iterator[Finding]:
    if needed.weights is None or needed.cache_bytes(1) is None:
        yield Finding(
            CHECK,
            "unknown",
            f"{name_of(launch)}: config.json does not say the sizes from which memory is estimated.",
            "Compare the weights with the memory by hand.",
        )
    elif situation.on_gpu is False:
        yield _on_cpu(situation, launch, needed)
    elif not situation.gpus:
        yield Finding(
            CHECK,
            "unknown",
            f"{name_of(launch)}: needs {_parts(needed)} on each GPU, and no GPU can be read here.",
        )
    else:
        yield _on_gpu(situation, launch, needed)


def _on_gpu(situation: Situation, launch: Launch, needed: MemoryEstimate) -> Finding:
    sizes = [(gpu.memory_bytes, gpu.free_bytes) for gpu in situation.gpus]
    known = [(total, free) for total, free in sizes if total is not None and free is not None]
    if len(known) < len(sizes):
        return Finding(CHECK, "unknown", f"{name_of(launch)}: the GPUs do not say their memory.")
    total, free = min(known)
    share = float(_argument(situation, launch, "gpu-memory-utilization") or _share(situation))
    if free < share * total:
        return Finding(
            CHECK,
            "blocker",
            f"{name_of(launch)}: vLLM wants {share:.0%} of {gib(total)} and {gib(free)} is free, so "
            "that it will not start.",
            "End what else runs on the GPU, or lower engine_args gpu-memory-utilization.",
        )
    room = _room(situation, launch, needed, round(share * total))
    return _verdict(situation, launch, needed, room)


def _room(situation: Situation, launch: Launch, needed: MemoryEstimate, budget: int) -> int:
    """Return the bytes of KV cache on a GPU: what is asked for, else what the rest of the budget
    is."""
    asked = token_count(_argument(situation, launch, "kv-cache-memory-bytes"))
    left = needed.left_for_cache(budget)
    return asked if asked is not None else left or 0


def _on_cpu(situation: Situation, launch: Launch, needed: MemoryEstimate) -> Finding:
    asked = token_count(_argument(situation, launch, "kv-cache-memory-bytes"))
    space = situation.env.get("VLLM_CPU_KVCACHE_SPACE")
    cache = int(space) * GIB if space and space.isdigit() else asked
    free = machine.memory_bytes("MemAvailable")
    if cache is None or free is None:
        return Finding(
            CHECK,
            "warning",
            f"{name_of(launch)}: without VLLM_CPU_KVCACHE_SPACE vLLM takes {_share(situation):.0%} "
            "of the memory of this machine.",
            "Set environment: {VLLM_CPU_KVCACHE_SPACE: '1'} (GiB) in the study.",
        )
    wanted = (needed.weights or 0) + cache + _CPU_PROCESSES
    if wanted > free:
        return Finding(
            CHECK,
            "blocker",
            f"{name_of(launch)}: needs about {gib(wanted)} of memory and {gib(free)} is free.",
            "Close other programs, or lower VLLM_CPU_KVCACHE_SPACE.",
        )
    return _verdict(situation, launch, needed, cache)


def _verdict(situation: Situation, launch: Launch, needed: MemoryEstimate, room: int) -> Finding:
    """Say whether the cache holds one longest sequence (vLLM insists) and the highest load."""
    longest, load = needed.max_model_len, max(cell.concurrency or 1 for cell in launch.cells)
    one = needed.cache_bytes(longest) if longest is not None else None
    parts = f"{name_of(launch)}: {_parts(needed)}"
    if room <= 0 or (one is not None and one > room):
        return Finding(
            CHECK,
            "blocker",
            f"{parts} leave {gib(max(room, 0))} for the cache, and one sequence of {longest} tokens "
            f"takes {gib(one or 0)}.",
            "Serve on more GPUs, lower engine_args max-model-len, or choose a smaller draft.",
        )
    typical = _typical(situation, longest)
    fitting = needed.sequences_in(room, typical) or 0
    said = f"{parts}; {gib(room)} of cache holds {fitting} requests of {typical} tokens"
    if fitting < load:
        return Finding(
            CHECK,
            "warning",
            f"{said}, fewer than the {load} that the study sends at once: some will wait.",
            "Expect it in time to first token, or serve with more memory.",
        )
    return Finding(CHECK, "ok", f"{said}.")


def _typical(situation: Situation, longest: int | None) -> int:
    """Return an assumed number of tokens of a request, of which only the cap of its answer is
    known."""
    study = situation.study
    answer = study.request.max_tokens if study is not None else None
    wanted = _PROMPT + (answer or _ANSWER)
    return wanted if longest is None else min(wanted, longest)


def _parts(needed: MemoryEstimate) -> str:
    about = "" if needed.exact else "about "
    said = f"{about}{gib(needed.target_bytes or 0)} of weights"
    if needed.draft_bytes:
        said += f", {gib(needed.draft_bytes)} of draft"
    return f"{said} and an assumed {gib(WORKING_BYTES)} to work with"


def _share(situation: Situation) -> float:
    return situation.engine.memory_share or _SHARE


def _argument(situation: Situation, launch: Launch, name: str) -> Any:
    study = situation.study
    return None if study is None else engine_arguments(study, launch).get(name)
