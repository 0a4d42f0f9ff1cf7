"""Which names stand before a credential, and which environment variables may be written down."""

import re
from functools import lru_cache
from typing import Literal

#: ``certain``: whatever stands under the name is one; ``perhaps``: where its value looks like one.
Secrecy = Literal["certain", "perhaps"]

#: Only the end of a name counts, so that a long one costs nothing.
_LONGEST = 128
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VARIABLE = re.compile(r"_?[A-Z][A-Z0-9_]*")

#: Last words of a name, joined.
_CERTAIN = frozenset(
    {
        "password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets",
        "credential", "credentials", "creds", "psk", "authorization", "cookie", "cookies", "bearer", "apikey",
        "apikeys", "webhook", "webhook url", "webhook urls", "notify url", "notify urls",
        "connection string", "api key", "api keys", "access key", "access key id", "access keys",
        "private key", "secret key", "account key", "signing key", "encryption key", "auth key",
        "master key", "shared key", "subscription key", "license key", "ssh key", "deploy key",
        "access tokens", "auth tokens", "api tokens", "refresh tokens",
    }
)  # fmt: skip
#: The same, written as one word: PGPASSWORD, hftoken.
_RUN_TOGETHER = (
    "password", "passwd", "apikey", "secretkey", "accesskey", "privatekey", "clientsecret",
    "authtoken", "accesstoken", "refreshtoken", "apitoken", "hftoken", "bottoken",
)  # fmt: skip
_AMBIGUOUS = frozenset({"key", "pass", "pwd", "pw", "auth", "pat"})
#: What makes a word before ``token`` one of a text, and one before ``key`` one of a table.
_OF_TEXTS = frozenset(
    {
        "pad", "eos", "bos", "unk", "sep", "cls", "mask", "stop", "first", "last", "next", "image",
        "audio", "video", "vision", "per", "special", "think", "reasoning", "tool", "draft",
        "target", "bonus", "prompt", "output", "input", "start", "end", "begin", "max", "min",
        "num", "total", "new", "prev", "previous", "current", "sampled", "accepted", "rejected",
        "generated", "prefix", "suffix", "middle", "content", "each", "one", "single", "any",
    }
)  # fmt: skip
_OF_TABLES = frozenset(
    {
        "primary", "foreign", "sort", "cache", "partition", "public", "metric", "group", "row",
        "routing", "idempotency", "hash", "dataset", "config", "prompt", "column", "text", "data",
        "index", "object", "output", "input", "label", "series", "lookup", "join", "dict", "map",
        "kv", "value", "model", "arm", "field", "query", "attention", "past", "cell", "merge",
        "image", "run", "experiment", "batch", "result", "results", "job", "bench", "benchmark",
        "order", "unique", "composite", "natural", "sampling", "random", "prng", "shard",
    }
)  # fmt: skip
_PATHS = frozenset({"PWD", "OLDPWD"})

#: Beginnings of the environment variables that change what a server or a load generator does.
_TELLING = (
    "VLLM_", "CUDA_", "NCCL_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "OMP_", "MKL_", "KMP_",
    "OPENBLAS_", "HF_HUB_", "HF_DATASETS_", "TRANSFORMERS_", "TOKENIZERS_", "TRITON_", "GUIDELLM_",
    "NVIDIA_", "GLOO_", "UCX_", "NVSHMEM_", "FLASHINFER_", "SGLANG_", "SGL_", "LMCACHE_",
    "TRTLLM_", "ROCM_", "HIP_", "HSA_", "ROCR_", "XLA_", "GPU_", "RAY_", "SLURM_", "MALLOC_", "LC_",
)  # fmt: skip
_TELLING_WHOLE = frozenset(
    {
        "HF_HOME", "LANG", "LANGUAGE", "TZ", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONHASHSEED",
        "PYTHONUNBUFFERED", "DRAFTBOARD_IMAGE",
    }
)  # fmt: skip


def is_secret_name(name: str) -> bool:
    """Return whether a value under this name is, or may be, a credential."""
    return secrecy(name) is not None


def is_variable(name: str) -> bool:
    """Return whether an environment variable may have this name."""
    return len(name) <= _LONGEST and _VARIABLE.fullmatch(name) is not None


def may_be_written(variable: str) -> bool:
    """Return whether the value of an environment variable may be written down: it is on the
    list."""
    listed = variable in _TELLING_WHOLE or variable.startswith(_TELLING)
    return listed and not is_secret_name(variable)


@lru_cache(maxsize=4096)
def secrecy(name: str) -> Secrecy | None:
    """Return how sure it is that a value under this name is a credential; None: it is none."""
    said = name[-_LONGEST:].strip().lstrip("-")
    words = [word.lower() for word in _WORD.findall(said)]
    if not words or said in _PATHS:
        return None
    if any(" ".join(words[-length:]) in _CERTAIN for length in (1, 2, 3)):
        return "certain"
    if words[-1].endswith(_RUN_TOGETHER):
        return "certain"
    if words[-1] == "token":
        return None if words[-2:-1] and words[-2] in _OF_TEXTS else "certain"
    if words[-1] in _AMBIGUOUS:
        return _ambiguous(words, is_variable(said))
    return None


def _ambiguous(words: list[str], variable: bool) -> Secrecy | None:
    """Judge a name whose last word other things end with too; as a variable with a word before it,
    it is certainly that of a credential."""
    before = words[-2] if len(words) > 1 else None
    if words[-1] == "key" and (before in _OF_TABLES or (before is None and not variable)):
        return None
    return "certain" if variable and before is not None else "perhaps"
