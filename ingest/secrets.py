"""Removes credentials from anything a report or a record may hold, at any depth."""

import re
from collections.abc import Callable
from typing import Any

REMOVED = "[removed]"

_WORDS = (
    r"api[_-]?keys?|authorization|passw(?:or)?d|passphrase|secret|secret[_-]?key|credentials?"
    r"|private[_-]?key|access[_-]?key(?:[_-]?id)?|account[_-]?key|cookie|set-cookie|bearer"
)
#: Names whose value is a secret. A bare "token" counts, "max_tokens" and "first_token" do not.
_SECRET_NAME = re.compile(rf"(?:^|[_\-.\s]){{0,1}}(?:{_WORDS})$", re.IGNORECASE)
_TOKEN_NAME = re.compile(r"(?:^|[_\-.])token$", re.IGNORECASE)
_HARMLESS_TOKEN = re.compile(
    r"(?:pad|eos|bos|unk|sep|cls|mask|stop|first|last|next|image|audio|per)[_-]token$",
    re.IGNORECASE,
)
_NAME = rf"[\w.\-]*?(?:{_WORDS}|(?<![a-z])token)"

_IN_TEXT: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        # user:password@ and token@ in an address
        (r"(://)[^/\s@\"']+@", rf"\1{REMOVED}@"),
        # Authorization: Basic …, Bearer …
        (r"\b(authorization[\"']?\s*[:=]\s*[\"']?)(?:(?:bearer|basic|token|apikey)\s+)?"
         r"(?!\[removed\])[^\s\"',;]+", rf"\1{REMOVED}"),
        (r"\b(bearer\s+)(?=[^\s\"',;]{8})[^\s\"',;\[]+", rf"\1{REMOVED}"),
        (r"\b(basic\s+)(?=(?-i:\S*[a-z][A-Z]|\S*[\d=]))[^\s\"',;\[]{8,}", rf"\1{REMOVED}"),
        # ?access_token=…, HF_TOKEN=…, --api-key=…, --api-key …, "api_key": "…", 'token': '…'
        (rf"(--?{_NAME}[\"']?(?:\s+|\s*=\s*))(?!\[removed\])(?:\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)",
         rf"\1{REMOVED}"),
        (rf"((?<![\w-]){_NAME}\\?[\"']?\s*[:=]\s*\\?[\"']?)(?!\[removed\])[^\s\"',;&\\}}]+",
         rf"\1{REMOVED}"),
        (r"([?&](?:key|sig|signature|auth|x-amz-[a-z-]+)=)[^&\s\"']+", rf"\1{REMOVED}"),
        # shapes that are secrets wherever they stand
        (r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_\-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
         r"|nvapi-[A-Za-z0-9_\-]{16,}|AKIA[0-9A-Z]{16}|eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]+)",
         REMOVED),
    )
)  # fmt: skip
_MAY_HOLD = re.compile(
    r"key|token|auth|bearer|basic|pass|secret|credential|cookie|sig|://|hf_|sk-|gh[pousr]_|nvapi|AKIA|eyJ",
    re.IGNORECASE,
)
_FLAG = re.compile(r"^--?[\w.\-]+$")


def scrub(value: Any) -> Any:
    """The same value without credentials; dictionaries and lists are copied, never changed."""
    if isinstance(value, str):
        return scrub_text(value)
    scrubber = _SCRUBBERS.get(type(value))
    return value if scrubber is None else scrubber(value)


def scrub_text(text: str) -> str:
    """A text without credentials; texts that cannot hold one come back as they are."""
    if not _MAY_HOLD.search(text):
        return text
    for pattern, replacement in _IN_TEXT:
        text = pattern.sub(replacement, text)
    return text


def is_secret_name(name: str) -> bool:
    """Whether a value under this name is a credential."""
    if _SECRET_NAME.search(name):
        return True
    return bool(_TOKEN_NAME.search(name)) and not _HARMLESS_TOKEN.search(name)


def _scrub_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    return {key: _scrub_member(str(key), member) for key, member in value.items()}


def _scrub_member(name: str, member: Any) -> Any:
    if not is_secret_name(name) or member is None or isinstance(member, bool):
        return scrub(member)
    if isinstance(member, (int, float)) and _TOKEN_NAME.search(name):
        return member
    return REMOVED


def _scrub_list(value: list[Any]) -> list[Any]:
    scrubbed = [scrub(member) for member in value]
    for i in range(len(value) - 1):
        if _is_secret_flag(value[i]) and isinstance(value[i + 1], str):
            scrubbed[i + 1] = REMOVED
    return scrubbed


def _is_secret_flag(member: Any) -> bool:
    """``--api-key`` as one word of a command line, whose value is the next word."""
    if not isinstance(member, str) or not _FLAG.match(member):
        return False
    return is_secret_name(member.lstrip("-"))


_SCRUBBERS: dict[type, Callable[[Any], Any]] = {
    dict: _scrub_dict,
    list: _scrub_list,
    tuple: lambda value: tuple(_scrub_list(list(value))),
}
