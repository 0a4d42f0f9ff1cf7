"""What a bare report cannot say, told by ``--set``, by a file of facts, or by a ``meta.json`` beside it."""

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from ingest.speculation import completed, served_with
from ingest.stated import belongs, load_yaml, shown, why
from warehouse.contract import FACT_KEYS, Facts
from warehouse.errors import InvalidInput, UnknownKey

_OBJECTS = frozenset({"server_args", "engine_settings", "speculative_config"})


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return validated facts from ``key=value`` texts; the last one of a key wins.

    Raises UnknownKey with one sentence where a key is unknown or a value does not fit it.
    """
    given: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise UnknownKey(f"--set {pair!r} has no '='; write it as --set key=value.")
        if key not in FACT_KEYS:
            likely = key.lower().replace("-", "_")
            near = difflib.get_close_matches(likely, FACT_KEYS, n=3, cutoff=0.5)
            hint = f"known keys are {', '.join(FACT_KEYS)}"
            if near:
                hint = f"did you mean {' or '.join(near)}"
            raise UnknownKey(f"--set does not know the key {key!r}; {hint}.")
        given[key] = text
    for key in _OBJECTS & given.keys():
        try:
            given[key] = json.loads(given[key])
        except ValueError:
            raise UnknownKey(f"--set {key} needs a JSON object, got {given[key]!r}.") from None
    return checked_facts(completed(given))


def checked_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the same facts with the contract's types. Raises UnknownKey where one does not fit."""
    try:
        return Facts(**facts).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key, value = first["loc"][0] if first["loc"] else "facts", shown(first["input"])
        raise UnknownKey(
            f"--set {key}={value} does not fit the contract: {belongs(error)} belongs there."
        ) from None


# --- ``--facts FILE``: what the reports of a folder do not say, told once by their paths.
#
# docs/ingest.md shows one.
#
# A pattern stands for the end of a path: ``{name}`` is a fact, ``{}`` is anything, ``*`` too; none of
# them reaches over a ``/``. Later sections win, and ``--set`` wins over all.


_SECTIONS = ("set", "paths", "files")
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
        try:
            for pattern in self.patterns:
                if found := pattern.search(text):
                    facts |= checked_facts(found.groupdict())
        except UnknownKey as error:
            said = str(error).replace("--set ", "", 1)
            raise UnknownKey(f"--facts takes this from the path: {said}") from None
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


def _facts(said: Any, where: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise UnknownKey(f"{where!r} gives no facts; write them as {{key: value}}.")
    own = dict(said)
    command = own.pop("served_with", None)
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


# --- ``meta.json`` beside a report, or ``NAME.meta.json`` for ``NAME.json``: its facts.
#
# Other programs write such files for themselves: members that are no facts are passed over.


META, _OWN = "meta.json", ".meta.json"
_LARGEST = 1 << 20
#: What a report's name ends in; another dot belongs to the name, as in ``qwen2.5-7b.json``.
_ENDS = re.compile(r"(\.(json|jsonl|ya?ml|csv))?(\.(gz|zst))?$", re.IGNORECASE)


def is_meta(path: Path) -> bool:
    """Return whether a file tells the facts of other files."""
    return path.name == META or path.name.endswith(_OWN)


def meta_files(report: Path) -> tuple[Path, Path]:
    """Return where the facts of a report may lie, there or not; the report's own file is last."""
    own = _ENDS.sub("", report.name, count=1) + _OWN
    return report.with_name(META), report.with_name(own)


def facts_beside(report: Path) -> dict[str, Any]:
    """Return what lies beside a report and tells of it; the report's own file wins. Raises
    InvalidInput."""
    found: dict[str, Any] = {}
    for path in meta_files(report):
        if path.is_file() and path != report:
            found |= _meta_facts(path)
    return found


def _meta_facts(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidInput(f"{path} is larger than 1 MB: it holds more than facts; rename it.")
        said = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({why(error)}): mend it, or rename it."
        ) from None
    if not isinstance(said, dict):
        return {}
    command = said.get("served_with")
    try:
        served = served_with(command) if isinstance(command, str) else {}
        own = {key: value for key, value in said.items() if key in FACT_KEYS}
        return checked_facts(served | completed(own))
    except UnknownKey as error:
        words = str(error).replace("--set ", "", 1)
        raise InvalidInput(f"{path}: {words}") from None
