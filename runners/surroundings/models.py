"""A model from its own files: where they lie, its vocabulary, its size, the memory that it needs.

Files lie in a local folder or in the cache of Hugging Face. Configuration and tokenizer files are
read and the sizes of the weights, never the weights. Nothing is downloaded here
(``runners/probes/probe.py`` does that, in vLLM's own environment).
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from runners.surroundings.layout import json_object

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
#: bytes of each end of a large file that go into a local folder's revision
_EDGE = 1 << 20


@dataclass(frozen=True)
class ModelFiles:
    """A model as this machine has it. ``folder`` None: not here, and ``reason`` says why not.

    ``revision`` is the hub's commit; for a local folder a hash over its files, "local:…".
    """

    model: str
    origin: Literal["folder", "cache", "hub", "nowhere"]
    folder: Path | None = None
    revision: str | None = None
    weight_bytes: int | None = None
    reason: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the study names a folder rather than a hub id."""
        return self.origin == "folder" or is_path(self.model)

    @property
    def config(self) -> dict[str, Any] | None:
        """The content of config.json; None where there is none that can be read."""
        return None if self.folder is None else json_object(self.folder / "config.json")


def find(model: str, revision: str | None, env: Mapping[str, str]) -> ModelFiles:
    """Return a model's files under the environment that the server will have (HF_HOME,
    HF_HUB_CACHE)."""
    folder = Path(model).expanduser()
    if is_path(model) or Path(model).is_dir():
        if not folder.is_dir():
            return ModelFiles(model, "nowhere", reason=f"there is no folder {model}")
        size = _weight_file_bytes(folder)
        if not (folder / "config.json").is_file():
            reason = f"the folder {model} has no config.json"
            return ModelFiles(model, "folder", folder, None, size, reason)
        return ModelFiles(model, "folder", folder, _content_revision(folder), size)
    commit = commit_here("models", model, revision, env)
    folder = _repository("models", model, env) / "snapshots" / (commit or "none")
    if commit is None or not folder.is_dir():
        return ModelFiles(model, "nowhere", reason=f"{model} is not in the cache of this machine")
    return ModelFiles(model, "cache", folder, commit, _weight_file_bytes(folder))


def commit_here(
    kind: Literal["models", "datasets"], name: str, revision: str | None, env: Mapping[str, str]
) -> str | None:
    """Return the commit of a repository of the hub, as it was last fetched to this machine."""
    repository, revision = _repository(kind, name, env), revision or "main"
    if (repository / "snapshots" / revision).is_dir():
        return revision
    try:
        return (repository / "refs" / revision).read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _repository(kind: str, name: str, env: Mapping[str, str]) -> Path:
    return hub_cache(env) / f"{kind}--{name.replace('/', '--')}"


def is_path(model: str) -> bool:
    """Return whether a name can only be a folder: a hub id is ``name`` or ``owner/name``."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1


def hub_cache(env: Mapping[str, str]) -> Path:
    """Return the folder in which huggingface_hub keeps repositories, by the variables that it
    reads."""
    merged = {**os.environ, **env}
    if merged.get("HF_HUB_CACHE"):
        return Path(merged["HF_HUB_CACHE"]).expanduser()
    cache = Path(merged.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(merged.get("HF_HOME") or cache / "huggingface").expanduser() / "hub"


def _weight_file_bytes(folder: Path) -> int | None:
    # The bytes of the weight files of the kind that vLLM takes first; None where there are
    # none, or where the index names some that are not here: a download that was cut off.
    for pattern in _WEIGHTS:
        sizes = [file.stat().st_size for file in folder.glob(pattern) if file.is_file()]
        if sizes:
            index = json_object(folder / "model.safetensors.index.json") or {}
            names = index.get("weight_map", {}).values() if pattern == _WEIGHTS[0] else ()
            return sum(sizes) if all((folder / name).is_file() for name in {*names}) else None
    return None


def _content_revision(folder: Path) -> str:
    """Return a name for the content of a folder: names, sizes, and the content or its two ends.
    Hidden files, notes and subfolders do not make the model."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if not file.is_file() or file.name.startswith(".") or file.suffix in {".md", ".txt"}:
            continue
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as content:
            digest.update(content.read(_EDGE))
            if size > _EDGE:
                content.seek(-min(_EDGE, size - _EDGE), os.SEEK_END)
                digest.update(content.read())
    return f"local:{digest.hexdigest()[:16]}"


# --- Tokens and their numbers, read from tokenizer files: a draft speaks to its target in numbers.


#: Tokenizer files that are compared as they are, because only their own library reads them.
_OPAQUE = ("tokenizer.model", "tekken.json", "tiktoken.model", "vocab.txt", "spiece.model")
#: The number of each token; or, where a file cannot be read here, the hash of that file.
Vocabulary = dict[str, int] | str


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """Read the vocabulary of a model's folder; None where it has no tokenizer of its own."""
    tokenizer, plain = json_object(folder / "tokenizer.json"), json_object(folder / "vocab.json")
    if tokenizer is not None:
        added = {token["content"]: token["id"] for token in tokenizer.get("added_tokens") or []}
        vocab = tokenizer.get("model", {}).get("vocab")
        if isinstance(vocab, dict):  # BPE and WordPiece write {token: id} …
            return vocab | added
        pairs = vocab if isinstance(vocab, list) else []  # … and Unigram [[token, score], …].
        return {str(p[0]): number for number, p in enumerate(pairs) if isinstance(p, list)} | added
    if plain is not None:
        return plain | (json_object(folder / "added_tokens.json") or {})
    for file in (folder / name for name in _OPAQUE):
        if file.is_file():
            return hashlib.sha256(file.read_bytes()).hexdigest()
    return None


def vocabulary_difference(first: Vocabulary, second: Vocabulary) -> tuple[int, int, int] | None:
    """Return how many tokens stand under other numbers, and how many only the first and only the
    second has; None where that cannot be read from the files."""
    if isinstance(first, str) or isinstance(second, str):
        return (0, 0, 0) if first == second else None
    shared = first.keys() & second.keys()
    renumbered = sum(first[token] != second[token] for token in shared)
    return renumbered, len(first) - len(shared), len(second) - len(shared)


def has_chat_template(folder: Path) -> bool:
    """Return whether the tokenizer says how a conversation is written as one text."""
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    return bool((json_object(folder / "tokenizer_config.json") or {}).get("chat_template"))


# --- Bytes of a model's weights and of its KV cache, from config.json alone.
#
# Weights are exact when the sizes of the weight files are known; these formulas are for when they
# are not. Parameters of a decoder layer: attention q, k, v, o and a gated MLP (three matrices of
# hidden x intermediate), in every expert of a mixture. Norms and biases are left out: under 0.1 %.


Config = Mapping[str, Any]
_FULL = {"float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0}
#: bits a weight, scales of its group included; mxfp4: 4 + 8/32, nvfp4: 4 + 8/16
_BITS = {"mxfp4": 4.25, "nvfp4": 4.5, "fp8": 8.0, "awq": 4.25, "gptq": 4.25, "bitsandbytes": 4.5}
_WINDOWED = {"sliding_attention", "chunked_attention"}
_CACHING = {"full_attention", "attention", *_WINDOWED}


@dataclass(frozen=True)
class CacheShape:
    """What one sequence keeps in the KV cache of one GPU: each layer all its tokens, or those of a
    window. Layers that keep a state of fixed size instead (linear attention) are not counted."""

    full_layers: int
    window_layers: int
    window: int
    bytes_per_token_and_layer: int

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


def parameters(config: Config) -> dict[str, int] | None:
    # The numbers of parameters by where they stand, since quantization spares the embeddings and
    # sometimes the attention; None where the configuration does not say its sizes.
    text = text_config(config)
    hidden, layers, vocabulary, wide = _numbers(
        text, "hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"
    )
    if not hidden or not layers or not vocabulary:
        return None
    local, plain, routed, skipped, step, narrow, shared_width, shared = _numbers(
        text, "num_local_experts", "num_experts", "n_routed_experts", "first_k_dense_replace",
        "decoder_sparse_step", "moe_intermediate_size", "shared_expert_intermediate_size",
        "n_shared_experts",
    )  # fmt: skip
    experts, width, sparse = local or plain or routed, narrow or wide, 0
    if experts:
        dense = text.get("mlp_only_layers")
        sparse = (layers - (len(dense) if isinstance(dense, list) else skipped)) // (step or 1)
    # The experts of a layer, those that every token visits, and the router.
    each = 3 * hidden * (experts * width + (shared_width or width * shared)) + hidden * experts
    return {
        "embedding": (1 if text.get("tie_word_embeddings") else 2) * vocabulary * hidden,
        "attention": layers * _attention(text, hidden),
        "dense": (layers - sparse) * 3 * hidden * (wide or 4 * hidden),
        "experts": sparse * each,
    }


def _attention(text: Config, hidden: int) -> int:
    """Return the parameters of a layer's attention; of DeepSeek's MLA: q through its own low rank
    or not, k and v from the latent, o."""
    heads, latent, rank, rope, plain, value = _numbers(
        text, "num_attention_heads", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim",
        "qk_nope_head_dim", "v_head_dim",
    )  # fmt: skip
    heads = heads or 1
    if not latent:
        kv_heads, size = _heads_and_size(text)
        return 2 * hidden * heads * size + 2 * hidden * (kv_heads or heads) * size
    query = heads * (plain + rope)
    queries = rank * (hidden + query) if rank else hidden * query
    return queries + hidden * (latent + rope) + heads * (latent * (plain + value) + value * hidden)


def weight_bytes(config: Config) -> int | None:
    """Return the bytes of the weights as stored, by the configuration's dtype and quantization."""
    parts = _bytes_by_part(config)
    return None if parts is None else round(sum(parts.values()))


def _bytes_by_part(config: Config) -> dict[str, float] | None:
    counts = parameters(config)
    if counts is None:
        return None
    full, how = _dtype_bytes(config), config.get("quantization_config")
    how = how or text_config(config).get("quantization_config")
    how = how if isinstance(how, Mapping) else {}
    packed = _packed_bytes(how, full)
    # Such layers are left out by name (``modules_to_not_convert``, ``ignore``).
    spared = how.get("modules_to_not_convert") or how.get("ignore") or []
    attention = full if any("attn" in str(name) for name in spared) else packed
    each = {"embedding": full, "attention": attention}
    return {name: count * each.get(name, packed) for name, count in counts.items()}


def _packed_bytes(how: Config, full: float) -> float:
    # The bytes of a parameter in a quantized matrix; ``full`` where nothing is quantized.
    if not how:
        return full
    method = str(how.get("quant_algo") or how.get("quant_method") or "").lower()
    # compressed-tensors says the width of each group of layers; the first is the bulk.
    groups = how.get("config_groups")
    first: Config = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
    bits = _number(how, "bits") or _number(first.get("weights") or {}, "num_bits")
    if bits is not None and method not in {"mxfp4", "nvfp4"}:
        return (bits + (0.25 if bits < 8 else 0.0)) / 8
    return _BITS.get(method, 8 * full) / 8


def cache_shape(config: Config, tensor_parallel_size: int, cache_dtype: str) -> CacheShape | None:
    """Return what the KV cache of one GPU holds; ``cache_dtype`` is vLLM's --kv-cache-dtype.

    A token leaves k and v of the GPU's heads in a layer, or MLA's one latent. With fewer KV heads
    than GPUs the heads are copied; the latent always is."""
    text = text_config(config)
    layers, latent, rope, sliding, chunk = _numbers(
        text, "num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim", "sliding_window",
        "attention_chunk_size",
    )  # fmt: skip
    heads, size = _heads_and_size(text)
    if not layers or not (latent or (heads and size)):
        return None
    values = latent + rope if latent else 2 * max(1, heads // tensor_parallel_size) * size
    width = 1.0 if cache_dtype.startswith("fp8") else _FULL.get(cache_dtype, _dtype_bytes(config))
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and kinds:
        windowed = sum(kind in _WINDOWED for kind in kinds)
        full = layers - windowed - sum(kind not in _CACHING for kind in kinds)
    else:
        whole = text.get("use_sliding_window") is False or not sliding
        full, windowed = (layers, 0) if whole else (0, layers)
    return CacheShape(full, windowed, sliding or chunk, round(values * width))


def context_length(config: Config) -> int | None:
    """Return the longest sequence that the model was made for, in tokens."""
    return _number(text_config(config), "max_position_embeddings")


def _dtype_bytes(config: Config) -> float:
    # The bytes of a parameter that is not quantized; two where nothing is said.
    text = text_config(config)
    name = text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype")
    return _FULL.get(str(name).removeprefix("torch."), 2.0)


def _heads_and_size(text: Config) -> tuple[int, int]:
    # The number of KV heads and the values of one; 0 where it is unknown.
    kv_heads, heads, size, hidden = _numbers(
        text, "num_key_value_heads", "num_attention_heads", "head_dim", "hidden_size"
    )
    return kv_heads or heads, size or (hidden // heads if heads else 0)


def _numbers(text: Config, *keys: str) -> tuple[int, ...]:
    # Whole numbers by their keys; 0 for one that is not stated.
    return tuple(_number(text, key) or 0 for key in keys)


def _number(text: Config, key: str) -> int | None:
    value = text.get(key)
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
class MemoryEstimate:
    """Bytes on one GPU. None: the files that would tell are not on this machine."""

    target_bytes: int | None
    draft_bytes: int | None
    target_cache: CacheShape | None
    draft_cache: CacheShape | None
    max_model_len: int | None
    #: whether the weights are sizes of files; else they are computed from config.json
    exact: bool
    target_config: Config = field(default_factory=dict)

    @property
    def weights(self) -> int | None:
        """The bytes of the target's and the draft's weights together."""
        if self.target_bytes is None or self.draft_bytes is None:
            return None
        return self.target_bytes + self.draft_bytes

    def read_by(self, tokens: int, expert: float = 1.0) -> float:
        """Return the bytes of the target that a step of so many tokens reads: all but the experts
        that none of them visits, were they chosen by chance. A byte of an expert counts ``expert``
        times."""
        parts, whole = _bytes_by_part(self.target_config), float(self.target_bytes or 0)
        local, plain, routed, visited, said = _numbers(
            text_config(self.target_config), "num_local_experts", "num_experts", "n_routed_experts",
            "num_experts_per_tok", "experts_per_token",
        )  # fmt: skip
        if parts is None or not (count := local or plain or routed):
            return whole
        in_experts, missed = (
            parts["experts"] / sum(parts.values()),
            1 - (visited or said or count) / count,
        )
        return whole * (1 - in_experts + expert * in_experts * (1 - missed**tokens))

    def cache_bytes(self, tokens: int) -> int | None:
        """Return the bytes of KV cache of one sequence of so many tokens, the draft's layers
        included."""
        if self.target_cache is None:
            return None
        draft = 0 if self.draft_cache is None else self.draft_cache.bytes_of(tokens)
        return self.target_cache.bytes_of(tokens) + draft

    def sequences_in(self, room: int, tokens: int) -> int | None:
        """Return how many sequences of so many tokens fit into ``room`` bytes of cache."""
        each = self.cache_bytes(tokens)
        return None if not each else max(0, room // each)


def with_dashes(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's arguments by names with dashes, none in front, however they are spelled."""
    return {name.lstrip("-").replace("_", "-"): value for name, value in arguments.items()}


def with_underscores(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return them by names with underscores, none in front."""
    return {name.replace("-", "_"): value for name, value in with_dashes(arguments).items()}


def memory_estimate(
    target: ModelFiles,
    draft: ModelFiles | None,
    tensor_parallel_size: int = 1,
    engine_args: Mapping[str, Any] | None = None,
    speculative_config: Mapping[str, Any] | None = None,
) -> MemoryEstimate:
    """Return what one GPU of a server holds; ``draft`` is None where no second model is loaded."""
    named = with_dashes(engine_args or {})
    config, drafting = target.config or {}, speculative_config or {}
    stages = token_count(named.get("pipeline-parallel-size")) or 1
    draft_size = drafting.get("draft_tensor_parallel_size") or tensor_parallel_size
    cache_dtype, draft_cache = str(named.get("kv-cache-dtype", "auto")), None
    whole = cache_shape(config, tensor_parallel_size, cache_dtype)
    if draft is not None:
        draft_cache = cache_shape(draft.config or {}, draft_size, cache_dtype)
    elif whole is not None and str(drafting.get("method", "")).endswith("mtp"):
        # One layer, which comes with the target itself.
        draft_cache = replace(whole, full_layers=1, window_layers=0, window=0)
    return MemoryEstimate(
        target_bytes=_share(target, tensor_parallel_size * stages),
        draft_bytes=0 if draft is None else _share(draft, draft_size),
        # The first stages of a pipeline have one more layer.
        target_cache=None if whole is None else replace(
            whole, full_layers=-(-whole.full_layers // stages),
            window_layers=-(-whole.window_layers // stages),
        ),
        draft_cache=draft_cache,
        max_model_len=token_count(named.get("max-model-len")) or context_length(config),
        exact=all(m.weight_bytes is not None for m in (target, draft) if m is not None),
        target_config=config,
    )  # fmt: skip


def token_count(text: Any) -> int | None:
    """Read a number of tokens as vLLM does: ``8192``, ``"8192"``, ``"8k"`` (8000) and ``"8K"``
    (8192); None for another text."""
    text = str(text).strip()
    factor = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}.get(text[-1:], 1)
    digits = text if factor == 1 else text[:-1]
    return int(float(digits) * factor) if digits.replace(".", "", 1).isdigit() else None


def gib(amount: int | float) -> str:
    """Write bytes for a reader: "60.7 GiB", small amounts in MiB."""
    return f"{amount / GIB:.1f} GiB" if abs(amount) >= GIB / 2 else f"{amount / (1 << 20):.0f} MiB"


def _share(model: ModelFiles, gpus: int) -> int | None:
    # The bytes of a model's weights on each of so many GPUs.
    config, total = model.config, model.weight_bytes
    if total is None and config is not None:
        total = weight_bytes(config)
    return None if total is None else -(-total // gpus)
