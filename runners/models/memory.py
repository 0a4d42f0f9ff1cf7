"""How much memory a server needs: weights, draft and KV cache, on each of its GPUs.

vLLM takes a share of the memory (--gpu-memory-utilization), puts weights and working memory into
it and gives what is left to the KV cache; it refuses to start when not even one sequence of
--max-model-len fits there. What it needs to work (activations, CUDA graphs, NCCL) it measures at
its start; before that there is only an assumption, ``WORKING_BYTES``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runners.models.model_files import ModelFiles
from runners.models.model_size import CacheShape, cache_shape, context_length, weight_bytes

#: Assumed for activations, CUDA graphs and communication on a GPU. Not measured by us.
WORKING_BYTES = 3 << 30
GIB = 1 << 30


@dataclass(frozen=True)
class Serving:
    """The arguments of a server that decide about its memory."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    cache_dtype: str = "auto"
    max_model_len: int | None = None
    draft_tensor_parallel_size: int | None = None
    #: draft layers that come with the target itself (MTP)
    own_draft_layers: int = 0


@dataclass(frozen=True)
class Estimate:
    """Bytes on one GPU. None: the files that would tell are not on this machine."""

    target_bytes: int | None
    draft_bytes: int | None
    target_cache: CacheShape | None
    draft_cache: CacheShape | None
    max_model_len: int | None
    #: whether the weights are sizes of files; else they are computed from config.json
    exact: bool

    @property
    def weights(self) -> int | None:
        """The bytes of the target's and the draft's weights together."""
        if self.target_bytes is None or self.draft_bytes is None:
            return None
        return self.target_bytes + self.draft_bytes

    def cache_bytes(self, tokens: int) -> int | None:
        """Return the bytes of KV cache of one sequence of so many tokens, the draft's layers
        included."""
        if self.target_cache is None:
            return None
        draft = 0 if self.draft_cache is None else self.draft_cache.bytes_of(tokens)
        return self.target_cache.bytes_of(tokens) + draft

    def left_for_cache(self, budget: int, working: int = WORKING_BYTES) -> int | None:
        """Return what a budget of bytes leaves to the cache; negative where nothing is left."""
        return None if self.weights is None else budget - self.weights - working

    def sequences_in(self, room: int, tokens: int) -> int | None:
        """Return how many sequences of so many tokens fit into ``room`` bytes of cache."""
        each = self.cache_bytes(tokens)
        return None if not each else max(0, room // each)


def estimate(target: ModelFiles, draft: ModelFiles | None, serving: Serving) -> Estimate:
    """Return what one GPU of a server holds; ``draft`` is None where no second model is loaded."""
    config = target.config or {}
    return Estimate(
        target_bytes=_share(target, serving.tensor_parallel_size * serving.pipeline_parallel_size),
        draft_bytes=0 if draft is None else _share(draft, _draft_size(serving)),
        target_cache=_target_cache(config, serving),
        draft_cache=_draft_cache(config, draft, serving),
        max_model_len=serving.max_model_len or context_length(config),
        exact=all(m.weight_bytes is not None for m in (target, draft) if m is not None),
    )


def serving(
    tensor_parallel_size: int, engine_args: Mapping[str, Any], drafting: Mapping[str, Any] | None
) -> Serving:
    """Return what a study says about memory: its engine arguments and its speculative config."""
    said = {name.lstrip("-").replace("_", "-"): value for name, value in engine_args.items()}
    drafting = drafting or {}
    return Serving(
        tensor_parallel_size=tensor_parallel_size,
        pipeline_parallel_size=tokens(said.get("pipeline-parallel-size")) or 1,
        cache_dtype=str(said.get("kv-cache-dtype", "auto")),
        max_model_len=tokens(said.get("max-model-len")),
        draft_tensor_parallel_size=drafting.get("draft_tensor_parallel_size"),
        own_draft_layers=int(str(drafting.get("method", "")).endswith("mtp")),
    )


def tokens(said: Any) -> int | None:
    """Read a number of tokens as vLLM does: ``8192``, ``"8192"``, ``"8k"`` (8000) and ``"8K"``
    (8192); None for another text."""
    text = str(said).strip()
    factor = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}.get(text[-1:], 1)
    digits = text if factor == 1 else text[:-1]
    return int(float(digits) * factor) if digits.replace(".", "", 1).isdigit() else None


def gib(amount: int | float) -> str:
    """Write bytes for a reader: "60.7 GiB", small amounts in MiB."""
    return f"{amount / GIB:.1f} GiB" if abs(amount) >= GIB / 2 else f"{amount / (1 << 20):.0f} MiB"


def _share(model: ModelFiles, gpus: int) -> int | None:
    config = model.config
    total = model.weight_bytes
    if total is None and config is not None:
        total = weight_bytes(config)
    return None if total is None else -(-total // gpus)


def _draft_size(serving: Serving) -> int:
    return serving.draft_tensor_parallel_size or serving.tensor_parallel_size


def _target_cache(config: Mapping[str, Any], serving: Serving) -> CacheShape | None:
    """Return the cache of the target's layers that stand on one GPU: the first stages of a pipeline
    have one more layer."""
    whole = cache_shape(config, serving.tensor_parallel_size, serving.cache_dtype)
    if whole is None:
        return None
    stages = serving.pipeline_parallel_size
    return replace(
        whole,
        full_layers=-(-whole.full_layers // stages),
        window_layers=-(-whole.window_layers // stages),
    )


def _draft_cache(
    config: Mapping[str, Any], draft: ModelFiles | None, serving: Serving
) -> CacheShape | None:
    if draft is not None:
        return cache_shape(draft.config or {}, _draft_size(serving), serving.cache_dtype)
    target = cache_shape(config, serving.tensor_parallel_size, serving.cache_dtype)
    if target is None or not serving.own_draft_layers:
        return None
    return CacheShape(serving.own_draft_layers, 0, 0, target.bytes_per_token_and_layer)
