"""Bytes of a model's weights and of its KV cache, from config.json alone.

Weights are exact when the sizes of the weight files are known; these formulas are for when they
are not. Parameters of a decoder layer: attention q, k, v, o and a gated MLP (three matrices of
hidden x intermediate), in every expert of a mixture. Norms and biases are left out: under 0.1 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
