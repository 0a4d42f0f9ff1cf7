"""The API key of a server that somebody else runs: named, never written.

It comes from a variable of the environment or from a file, goes to the server and to GuideLLM's
environment, and is taken out of everything that is written down.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from runners.surroundings.privacy import hide
from warehouse.errors import RunnerError
from warehouse.secrets.words import REMOVED

_LONGEST = 8192


def read_key(variable: str | None, file: Path | None) -> str | None:
    """Return the key that the options name; None where they name none. Raises RunnerError."""
    if variable is not None and file is not None:
        raise RunnerError("Give the API key once: --api-key-env or --api-key-file.")
    if variable is not None:
        key = _usable(os.environ.get(variable, ""), f"the variable {variable}")
    elif file is not None:
        key = _usable(_text(file), f"the file {file}")
    else:
        return None
    hide(key)
    return key


def _text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise RunnerError(f"The API key in {file} cannot be read: {error}.") from None


def _usable(text: str, where: str) -> str:
    key = text.strip()
    if not key:
        raise RunnerError(f"There is no API key in {where}; put the key there, alone.")
    if len(key) > _LONGEST or not key.isprintable() or " " in key:
        raise RunnerError(f"What stands in {where} is no API key: it must be one word.")
    return key


def scrub(paths: Iterable[Path], key: str) -> None:
    """Take a key out of files: releases of GuideLLM write their own settings into their reports."""
    forms = {key.encode(), json.dumps(key)[1:-1].encode()}
    for path in paths:
        if not path.is_file():
            continue
        said = clean = path.read_bytes()
        for form in forms:
            clean = clean.replace(form, REMOVED.encode())
        if clean != said:
            path.write_bytes(clean)
