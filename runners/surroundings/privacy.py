"""What a record may not hold: credentials, user names, and paths that carry one."""

import getpass
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REMOVED = "[removed]"
_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:token|api[_-]?key|access[_-]?key(?:[_-]?id)?|key|secret|passw(?:or)?d|passphrase"
    r"|credentials?|authorization|cookie|auth)$",
    re.IGNORECASE,
)
#: shapes that are secrets wherever they stand
_SECRET = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|nvapi-[\w-]{16,}"
    r"|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)|(?<=://)[^/\s@\"']+(?=@)"
)
_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s\"':,]+|(?<![\w.])/root(?=[/\s\"':,]|$)")
#: credentials that came from elsewhere, e.g. the file of an API key
_HIDDEN: set[str] = set()
#: an option whose value is a secret, as one word of a command line or as two
_SECRET_OPTION = re.compile(r"^--?[\w.-]*(?:api-?key|token|secret|password|auth)$", re.IGNORECASE)


def public(value: Any) -> Any:
    """Return a JSON value as a record may hold it; dictionaries and lists are copied.

    Home folders become ``~``, this user's name in a path ``[user]``, credentials ``[removed]``.
    """
    if isinstance(value, str):
        return _public_text(value)
    if isinstance(value, Mapping):
        return {name: _member(str(name), member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_word(value, place) for place in range(len(value))]
    return value


def hide(secret: str) -> None:
    """Take this credential out of everything that is made fit for a record from now on."""
    _HIDDEN.add(secret)


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable or key of that name is a credential."""
    return bool(_SECRET_NAME.search(name))


def _member(name: str, value: Any) -> Any:
    return REMOVED if isinstance(value, str) and value and is_secret_name(name) else public(value)


def _word(words: list[Any] | tuple[Any, ...], place: int) -> Any:
    word, before = words[place], words[place - 1] if place else None
    if isinstance(before, str) and _SECRET_OPTION.match(before) and isinstance(word, str):
        return REMOVED
    option, equals, _ = word.partition("=") if isinstance(word, str) else ("", "", "")
    if equals and _SECRET_OPTION.match(option):
        return f"{option}={REMOVED}"
    return public(word)


def _public_text(text: str) -> str:
    text = _SECRET.sub(REMOVED, text)
    for secret in _own_secrets():
        text = text.replace(secret, REMOVED)
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=[/\s\"':,]|$)", "~", text)
    text = _HOME.sub("~", text)
    user = _user()
    return re.sub(rf"(?<=/){re.escape(user)}(?=/|$)", "[user]", text) if user else text


def _own_secrets() -> list[str]:
    """Credentials of this process's environment, wherever they were copied to, and hidden ones."""
    found = [v for name, v in os.environ.items() if len(v) >= 8 and is_secret_name(name)]
    return [*found, *_HIDDEN]


def _user() -> str | None:
    """The user's name, where it says something: root is nobody."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return None
    return None if name == "root" else name
