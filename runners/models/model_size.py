"""Bytes of a model's weights and of its KV cache, from config.json alone.

Weights are exact when the sizes of the weight files are known; these formulas are for when they
are not. Parameters of a decoder layer: attention q, k, v, o and a gated MLP (three matrices of
hidden x intermediate), in every expert of a mixture. Norms and biases are left out: under 0.1 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runners.models.model_files import ModelFiles

Config = Mapping[str, Any]
_FULL = {"float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0}
#: bits a weight, scales of its group included; mxfp4: 4 + 8/32, nvfp4: 4 + 8/16
_BITS = {"mxfp4": 4.25, "nvfp4": 4.5, "fp8": 8.0, "awq": 4.25, "gptq": 4.25, "bitsandbytes": 4.5}


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters by where they stand: quantization spares the embeddings, sometimes the
    attention."""

    embedding: int
    attention: int
    dense: int
    experts: int

    @property
    def total(self) -> int:
        """The number of all parameters."""
        return self.embedding + self.attention + self.dense + self.experts


@dataclass(frozen=True)
class CacheShape:
    """What one sequence keeps in the KV cache of one GPU: each layer all its tokens, or those of a
    window."""

    full_layers: int
    window_layers: int
    window: int
    bytes_per_token_and_layer: int
    #: layers that keep a state of fixed size instead (linear attention); not counted
    other_layers: int = 0

    def bytes_of(self, tokens: int) -> int:
        """Return the bytes that a sequence of so many tokens takes."""
        windowed = self.window_layers * min(tokens, self.window)
        return self.bytes_per_token_and_layer * (self.full_layers * tokens + windowed)


def text_config(config: Config) -> Config:
    """Return the part about the language model, where a model also sees, hears, or drafts for
    another."""
    names = ("text_config", "llm_config", "transformer_layer_config")
    inner = next((config[name] for name in names if config.get(name)), None)
    return {**config, **inner} if isinstance(inner, Mapping) else config


def parameters(config: Config) -> Parameters | None:
    """Return how many parameters there are; None where the configuration does not say its sizes."""
    said = text_config(config)
    if not all(_number(said, key) for key in ("hidden_size", "num_hidden_layers", "vocab_size")):
        return None
    hidden, layers = said["hidden_size"], said["num_hidden_layers"]
    sparse = _sparse_layers(said)
    ends = 1 if said.get("tie_word_embeddings") else 2
    return Parameters(
        embedding=ends * said["vocab_size"] * hidden,
        attention=layers * _attention(said, hidden),
        dense=(layers - sparse) * 3 * hidden * (_number(said, "intermediate_size") or 4 * hidden),
        experts=sparse * _experts(said, hidden),
    )


def weight_bytes(config: Config) -> int | None:
    """Return the bytes of the weights as stored, by the configuration's dtype and quantization."""
    counted = parameters(config)
    if counted is None:
        return None
    full, packed = dtype_bytes(config), _packed_bytes(config)
    attention = full if _spares(config, "attn") else packed
    quantized = counted.attention * attention + (counted.dense + counted.experts) * packed
    return round(counted.embedding * full + quantized)


def cache_shape(config: Config, tensor_parallel_size: int, cache_dtype: str) -> CacheShape | None:
    """Return what the KV cache of one GPU holds; ``cache_dtype`` is vLLM's --kv-cache-dtype."""
    said = text_config(config)
    layers, per_layer = (
        _number(said, "num_hidden_layers"),
        _cached_values(said, tensor_parallel_size),
    )
    if layers is None or per_layer is None:
        return None
    width = 1.0 if cache_dtype.startswith("fp8") else _FULL.get(cache_dtype, dtype_bytes(config))
    windowed, other = _layer_kinds(said, layers)
    return CacheShape(
        full_layers=layers - windowed - other,
        window_layers=windowed,
        window=_number(said, "sliding_window") or _number(said, "attention_chunk_size") or 0,
        bytes_per_token_and_layer=round(per_layer * width),
        other_layers=other,
    )


def context_length(config: Config) -> int | None:
    """Return the longest sequence that the model was made for, in tokens."""
    return _number(text_config(config), "max_position_embeddings")


def dtype_bytes(config: Config) -> float:
    """Return the bytes of a parameter that is not quantized; two where nothing is said."""
    said = text_config(config)
    name = said.get("dtype") or said.get("torch_dtype") or config.get("torch_dtype")
    return _FULL.get(str(name).removeprefix("torch."), 2.0)


def _cached_values(said: Config, tensor_parallel_size: int) -> int | None:
    """Return how many numbers are kept for a token in a layer of one GPU: k and v of its heads, or
    MLA's one latent.

    With fewer KV heads than GPUs the heads are copied; the latent always is.
    """
    latent = _number(said, "kv_lora_rank")
    if latent is not None:
        return latent + (_number(said, "qk_rope_head_dim") or 0)
    heads, size = _kv_heads(said), _head_size(said)
    if heads is None or size is None:
        return None
    return 2 * max(1, heads // tensor_parallel_size) * size


def _layer_kinds(said: Config, layers: int) -> tuple[int, int]:
    """Return (layers with a window, layers with a state instead of a cache)."""
    kinds = said.get("layer_types")
    if isinstance(kinds, list) and kinds:
        windowed = sum(kind in {"sliding_attention", "chunked_attention"} for kind in kinds)
        return windowed, sum(kind not in _CACHING for kind in kinds)
    whole = said.get("use_sliding_window") is False or not _number(said, "sliding_window")
    return (0 if whole else layers), 0


_CACHING = {"full_attention", "attention", "sliding_attention", "chunked_attention"}


def _attention(said: Config, hidden: int) -> int:
    heads = _number(said, "num_attention_heads") or 1
    latent = _number(said, "kv_lora_rank")
    if latent is not None:
        return _latent_attention(said, hidden, heads, latent)
    size = _head_size(said) or 0
    return 2 * hidden * heads * size + 2 * hidden * (_kv_heads(said) or heads) * size


def _latent_attention(said: Config, hidden: int, heads: int, latent: int) -> int:
    """Return the parameters of a layer of DeepSeek's MLA: q through its own low rank or not, k and
    v from the latent, o."""
    rope = _number(said, "qk_rope_head_dim") or 0
    plain, value = _number(said, "qk_nope_head_dim") or 0, _number(said, "v_head_dim") or 0
    rank = _number(said, "q_lora_rank")
    query = heads * (plain + rope)
    queries = hidden * query if rank is None else rank * (hidden + query)
    return queries + hidden * (latent + rope) + heads * (latent * (plain + value) + value * hidden)


def _experts(said: Config, hidden: int) -> int:
    """Return the parameters of the experts of one layer, of those that every token visits, and of
    the router."""
    count = _expert_count(said) or 0
    width = _number(said, "moe_intermediate_size") or _number(said, "intermediate_size") or 0
    shared = _number(said, "shared_expert_intermediate_size") or width * (
        _number(said, "n_shared_experts") or 0
    )
    return 3 * hidden * (count * width + shared) + hidden * count


def _sparse_layers(said: Config) -> int:
    if not _expert_count(said):
        return 0
    layers: int = said["num_hidden_layers"]
    dense = said.get("mlp_only_layers")
    first = len(dense) if isinstance(dense, list) else _number(said, "first_k_dense_replace") or 0
    return (layers - first) // (_number(said, "decoder_sparse_step") or 1)


def _expert_count(said: Config) -> int | None:
    names = ("num_local_experts", "num_experts", "n_routed_experts")
    return next((n for n in (_number(said, name) for name in names) if n), None)


def _kv_heads(said: Config) -> int | None:
    return _number(said, "num_key_value_heads") or _number(said, "num_attention_heads")


def _head_size(said: Config) -> int | None:
    size, hidden = _number(said, "head_dim"), _number(said, "hidden_size")
    heads = _number(said, "num_attention_heads")
    return size or (hidden // heads if hidden and heads else None)


def _packed_bytes(config: Config) -> float:
    """Return the bytes of a parameter in a quantized matrix; as dtype_bytes where nothing is
    quantized."""
    how = _quantization(config)
    if not how:
        return dtype_bytes(config)
    method = str(how.get("quant_algo") or how.get("quant_method") or "").lower()
    bits = _number(how, "bits") or _group_bits(how)
    if bits is not None and method not in {"mxfp4", "nvfp4"}:
        return (bits + (0.25 if bits < 8 else 0.0)) / 8
    return _BITS.get(method, 8 * dtype_bytes(config)) / 8


def _group_bits(how: Config) -> int | None:
    """Return the bits of a weight in the first group of layers, which is the bulk;
    compressed-tensors says the width of each group."""
    groups = how.get("config_groups")
    first: Config = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
    return _number(first.get("weights") or {}, "num_bits")


def _spares(config: Config, word: str) -> bool:
    """Return whether the quantization leaves such layers out (``modules_to_not_convert``,
    ``ignore``)."""
    how = _quantization(config) or {}
    spared = how.get("modules_to_not_convert") or how.get("ignore") or []
    return any(word in str(name) for name in spared)


def _quantization(config: Config) -> Config | None:
    said = config.get("quantization_config") or text_config(config).get("quantization_config")
    return said if isinstance(said, Mapping) else None


def _number(said: Config, key: str) -> int | None:
    value = said.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- How much memory a server needs: weights, draft and KV cache, on each of its GPUs.
#
# vLLM takes a share of the memory (--gpu-memory-utilization), puts weights and working memory into
# it and gives what is left to the KV cache; it refuses to start when not even one sequence of
# --max-model-len fits there. What it needs to work (activations, CUDA graphs, NCCL) it measures at
# its start; before that there is only an assumption, ``WORKING_BYTES``.


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
