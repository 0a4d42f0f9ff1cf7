"""What a record may not hold: credentials, user names, and paths that carry one."""

import getpass
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warehouse.secrets.names import is_secret_name
from warehouse.secrets.values import scrub
from warehouse.secrets.words import REMOVED

_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s\"':,]+|(?<![\w.])/root(?=[/\s\"':,]|$)")
#: credentials that came from elsewhere, e.g. the file of an API key
_HIDDEN: set[str] = set()


def public(value: Any) -> Any:
    """Return a JSON value as a record may hold it; dictionaries and lists are copied.

    Home folders become ``~``, this user's name in a path ``[user]``, credentials ``[removed]``.
    """
    return _placeless(scrub(value))


def _placeless(value: Any) -> Any:
    if isinstance(value, str):
        return _placeless_text(value)
    if isinstance(value, Mapping):
        return {name: _placeless(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_placeless(member) for member in value]
    return value


def hide(secret: str) -> None:
    """Take this credential out of everything that is made fit for a record from now on."""
    _HIDDEN.add(secret)


def _placeless_text(text: str) -> str:
    for secret in _own_secrets():
        text = text.replace(secret, REMOVED)
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=[/\s\"':,]|$)", "~", text)
    text = _HOME.sub("~", text)
    user = _user()
    return re.sub(rf"(?<=/){re.escape(user)}(?=/|$)", "[user]", text) if user else text


def _own_secrets() -> list[str]:
    """Return the credentials of this process's environment, wherever they were copied to, and
    hidden ones."""
    found = [v for name, v in os.environ.items() if len(v) >= 8 and is_secret_name(name)]
    return [*found, *_HIDDEN]


def _user() -> str | None:
    """Return the user's name, where it says something; None for root, who is nobody."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return None
    return None if name == "root" else name
