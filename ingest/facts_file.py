"""``--facts FILE``: what the reports of a folder do not say, told once by their paths.

The file is YAML::

    set: {gpu: H200, gpu_count: 1}
    paths: ["{arm}/{dataset}-c{concurrency}.json"]
    files:
      "baseline/*": {served_with: "vllm serve meta/llama"}
      "eagle3/*": {spec_method: eagle3, num_speculative_tokens: 3}

A pattern stands for the end of a path: ``{name}`` is a fact, ``{}`` is anything, ``*`` too; none of
them reaches over a ``/``. Later sections win, and ``--set`` wins over all.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from ingest.served_with import served_with
from ingest.settings import checked_facts
from ingest.speculation import completed
from ingest.yaml_text import load_yaml
from warehouse.contract import FACT_KEYS
from warehouse.errors import InvalidInput, UnknownKey

_SECTIONS = ("set", "paths", "files")
_SERVED = "served_with"
_PIECE = re.compile(r"\{([^{}]*)\}|(\*)")


@dataclass(frozen=True)
class FactsFile:
    """A file of facts that was read and checked."""

    everywhere: dict[str, Any]
    patterns: tuple[re.Pattern[str], ...]
    told: tuple[tuple[re.Pattern[str], dict[str, Any]], ...]

    def of(self, path: PurePath) -> dict[str, Any]:
        """Return the facts that the file states for the result at a path. Raises UnknownKey where a
        name's value cannot be."""
        facts = dict(self.everywhere)
        text = "/" + path.as_posix().lstrip("/")
        for pattern in self.patterns:
            if found := pattern.search(text):
                facts |= _of_path(found.groupdict())
        for pattern, own in self.told:
            if pattern.search(text):
                facts |= own
        return facts

    def unused(self, paths: Iterable[PurePath]) -> list[str]:
        """Return the patterns that no path fits, as they were written."""
        texts = ["/" + path.as_posix().lstrip("/") for path in paths]
        every = (*self.patterns, *(pattern for pattern, _ in self.told))
        return [_written(one) for one in every if not any(one.search(text) for text in texts)]


def read_facts(path: Path) -> FactsFile:
    """Read a file of facts. Raises UnknownKey with one sentence: what, where, what is known."""
    try:
        said = load_yaml(memoryview(path.read_bytes()), "a file of facts")
    except (OSError, InvalidInput) as error:
        raise UnknownKey(f"--facts {path}: {error}") from None
    unknown = [str(key) for key in said if key not in _SECTIONS]
    if unknown:
        raise UnknownKey(
            f"--facts {path} has a section {unknown[0]!r}; it may have {', '.join(_SECTIONS)}."
        )
    try:
        listed = [said["paths"]] if isinstance(said.get("paths"), str) else said.get("paths") or []
        told = said.get("files") or {}
        if not isinstance(listed, list) or not isinstance(told, dict):
            raise UnknownKey("'paths' is a list of patterns, and 'files' gives facts to patterns.")
        return FactsFile(
            _facts(said.get("set") or {}, "set"),
            tuple(_pattern(str(one)) for one in listed),
            tuple((_pattern(str(one)), _facts(own, str(one))) for one, own in told.items()),
        )
    except UnknownKey as error:
        raise UnknownKey(f"--facts {path}: {error}") from None


def _of_path(named: dict[str, str]) -> dict[str, Any]:
    try:
        return checked_facts(named)
    except UnknownKey as error:
        said = str(error).replace("--set ", "", 1)
        raise UnknownKey(f"--facts takes this from the path: {said}") from None


def _facts(said: Any, where: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise UnknownKey(f"{where!r} gives no facts; write them as {{key: value}}.")
    own = dict(said)
    command = own.pop(_SERVED, None)
    for key in own:
        _require_known(str(key), where)
    served = {} if command is None else served_with(str(command))
    return checked_facts(served | completed(own))


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern for the end of a path; each name may stand once."""
    parts, place, names = [], 0, set()
    for found in _PIECE.finditer(text):
        parts.append(re.escape(text[place : found.start()]))
        name, place = found[1], found.end()
        if name:
            _require_known(name, text)
            if name in names:
                raise UnknownKey(f"{text!r} has {{{name}}} twice; give it once.")
            names.add(name)
        parts.append(f"(?P<{name}>[^/]+?)" if name else "[^/]*?")
    parts.append(re.escape(text[place:]))
    return re.compile("/" + "".join(parts).lstrip("/") + "$")


def _written(pattern: re.Pattern[str]) -> str:
    names = re.sub(r"\(\?P<(\w+)>\[\^/\]\+\?\)", r"{\1}", pattern.pattern[1:-1])
    return re.sub(r"\\(.)", r"\1", names.replace("[^/]*?", "*"))


def _require_known(key: str, where: str) -> None:
    if key not in FACT_KEYS:
        raise UnknownKey(
            f"{where!r} names {key!r}, which is no fact; known are {', '.join(FACT_KEYS)}."
        )
