"""What is a credential: which names stand before one, which values are none, and how one looks by itself.

All patterns are RE2's, whose time grows with the length of a text and no faster, whatever it holds.
"""

import re
import tomllib
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal

import re2

# --- Which names stand before a credential, and which environment variables may be written down.


#: ``certain``: whatever stands under the name is one; ``perhaps``: where its value looks like one.
Secrecy = Literal["certain", "perhaps"]

#: Only so much of a name's end counts, so that a long one costs nothing.
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
    end = name[-_LONGEST:].strip().lstrip("-")
    words = [word.lower() for word in _WORD.findall(end)]
    if not words or end in _PATHS:
        return None
    if any(" ".join(words[-length:]) in _CERTAIN for length in (1, 2, 3)):
        return "certain"
    if words[-1].endswith(_RUN_TOGETHER):
        return "certain"
    if words[-1] == "token":
        return None if words[-2:-1] and words[-2] in _OF_TEXTS else "certain"
    if words[-1] not in _AMBIGUOUS:
        return None
    # With these other things end too; as a variable with a word before it, it is certainly that of a
    # credential.
    before, variable = words[-2] if len(words) > 1 else None, is_variable(end)
    if words[-1] == "key" and (before in _OF_TABLES or (before is None and not variable)):
        return None
    return "certain" if variable and before is not None else "perhaps"


# --- What stands in a credential's place, and which values are none though their name says so.


REMOVED = "[removed]"

#: What people write where there is no credential, and a reference to a variable.
_NONE = re.compile(
    r"(?:none|null|nil|empty|true|false|undefined|unset|redacted|<?removed>?|\[removed\]|dummy"
    r"|[*x.\-]+|(?-i:\$\{?[A-Z_][A-Z0-9_]*\}?|\$\([^)]{1,200}\)|\{\{[^}]{1,200}\}\}))?",
    re.IGNORECASE,
)
#: What is said *of* a credential: "password is required", "token: expired".
_REMARKS = frozenset(
    {
        "a", "an", "the", "not", "no", "in", "on", "of", "for", "to", "by", "from", "with", "and",
        "or", "is", "was", "are", "be", "been", "must", "should", "can", "may", "will", "required",
        "missing", "invalid", "incorrect", "wrong", "empty", "set", "unset", "expired", "needed",
        "too", "correct", "ok", "okay", "stored", "valid", "unknown", "unexpected", "found",
        "given", "used", "accepted", "rejected", "refused", "denied", "protected", "encrypted",
        "hidden", "generated", "limit", "count", "budget", "length", "type", "error", "mismatch",
        "failed", "available", "optional", "ignored", "present", "absent", "it", "this", "that",
        "now", "only", "rather", "authentication",
    }
)  # fmt: skip
#: Of a drawn word 62 % of the letters differ in kind from the one before; of names in capitals and
#: digits, such as Llama4Maverick17B128EInstruct, 35 %.
_DRAWN = 0.45
_LETTERS = re.compile(r"[A-Za-z]")
_MIXED = re.compile(r"[a-z][A-Z]|[A-Z]{2}.*[a-z]|[^\W\d_][!@#$%^&*+=~?]")


def is_none(value: str) -> bool:
    """Return whether a value is what people write where there is no credential."""
    return len(value) <= 256 and _NONE.fullmatch(value.strip()) is not None


def is_remark(value: str) -> bool:
    """Return whether a word says something of a credential and is none, as in "password is
    wrong"."""
    return value.strip(".,:;!?()").lower() in _REMARKS


def looks_random(value: str) -> bool:
    """Return whether nobody would write this as a word, a number or a path."""
    head = value[:256]
    if len(head) < 6 or head.startswith(("/", "./", "~")) or "://" in head:
        return False
    if not _LETTERS.search(head):
        return False
    return any(letter.isdigit() for letter in head) or _MIXED.search(head) is not None


def is_drawn(word: str) -> bool:
    """Return whether a generator has drawn a word, which nobody writes: of its neighbouring letters many
    differ in kind (small, capital, digit), and there are all three."""
    kinds = ["d" if c.isdigit() else "c" if c.isupper() else "s" for c in word[:256]]
    changes = sum(letter != following for letter, following in zip(kinds, kinds[1:], strict=False))
    return len(set(kinds)) == 3 and changes >= _DRAWN * len(kinds)


# --- Credentials that show themselves, by the rows of ``shapes.toml``.


#: What ends an address, or a value that no quotes enclose.
END = r"\s\"'<>\\"

#: What is left of a colour in a log.
COLOUR = r"\[[0-9;]{1,12}m"
#: A letter as logs, addresses and JSON in JSON spell it: ``\\n``, ``\\u0026``, ``%3D``.
_LETTER = r"\\+(?:[nrtbf]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})|%(?:25)*[0-9A-Fa-f]{2}"
_ESCAPED = f"{COLOUR}|{_LETTER}"


def scrub_shapes(text: str) -> str:
    """Return the text without credentials that show themselves, and without secret addresses."""
    beginnings, addresses, tokens, tokens_with_digit = _patterns()
    if not beginnings.search(text):
        return text
    text = addresses.sub(rf"\1{REMOVED}", text)
    text = tokens.sub(rf"\1{REMOVED}", text)
    return str(tokens_with_digit.sub(_removed_with_digit, text))


def _removed_with_digit(match: Any) -> str:
    has_digit = any(letter.isdigit() for letter in match[2])
    return match[1] + REMOVED if has_digit else str(match[0])


@cache
def _patterns() -> tuple[Any, Any, Any, Any]:
    """Return patterns of how credentials of all shapes begin (a text without any needs no closer
    look), of the addresses that hold one, of tokens, and of those that have a digit.
    """
    text = resources.files(__package__).joinpath("shapes.toml").read_text("utf-8")
    rows: dict[str, list[dict[str, Any]]] = tomllib.loads(text)
    written = [row["pattern"] for row in rows["written"]]
    starts: list[str] = []
    plain, with_digit = list[str](), list[str]()
    for row in rows["token"]:
        begins = [re.escape(start) for start in row["starts"]]
        starts += begins
        token = f"(?:{'|'.join(begins)})[{row['letters']}]{{{row['least']},}}"
        (with_digit if row.get("digit") else plain).append(token)
    # A slash may be written as %2F, or escaped as JSON allows.
    addresses = "|".join(
        re.escape(words).replace("/", r"(?:\\*/|%2[Ff])")
        for row in rows["address"]
        for words in row["behind"]
    )
    # Not in the middle of a word: ``task-…`` is no ``sk-…``. A file name may join by ``_``, and what an
    # escape ends is no word.
    before = f"(^|[^A-Za-z0-9]|{_ESCAPED})"
    return (
        re2.compile("|".join([*starts, *written, f"(?i:{addresses})"])),
        re2.compile(rf"(?i)((?:^|[^a-z]|{_ESCAPED})(?:{addresses}))(?:[^{END}]|\\+/)+"),
        re2.compile(f"{before}({'|'.join([*plain, *written])})"),
        re2.compile(f"{before}({'|'.join(with_digit)})"),
    )
