"""Reading a study file: what is wrong with it is said with the line on which it stands."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from runners.planning.study import Study
from warehouse.errors import StudyError

_LIMIT = 1 << 20
#: Keys and items that a study may come to with its aliases written out.
_MOST_NODES = 50_000
Where = tuple[str | int, ...]


def read_study(path: Path) -> Study:
    """Read the study in a YAML file. Raises StudyError: file, line, what is wrong there."""
    text = _text(path)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[Where, int] = {}
        if node is not None:
            _note_lines(node, (), lines)
        # yaml.safe_load reads the same text again: its constructors know dates and numbers.
        said = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise StudyError(f"{path}{_mark(error)} is not YAML: {_problem(error)}.") from None
    except (_TooMuchError, RecursionError):
        raise StudyError(
            f"{path} comes to more than {_MOST_NODES} values once its aliases are written out, or "
            "holds itself; write it without aliases (*name)."
        ) from None
    except _TwiceError as error:
        raise StudyError(f"{path} line {error.line}: {error.key} stands twice; keep one.") from None
    if not isinstance(said, dict):
        raise StudyError(f"{path} holds no study; start from one of the files in studies/.")
    try:
        return Study.model_validate(said).placed(path.parent)
    except ValidationError as error:
        raise StudyError(_said(path, error, lines)) from None


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LIMIT:
            raise StudyError(f"{path} is larger than 1 MB, so it is no study file.")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StudyError(
            f"There is no study file {path}; studies/ has some to start from."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"The study file {path} cannot be read: {error}.") from None


class _TwiceError(Exception):
    def __init__(self, key: str, line: int) -> None:
        self.key, self.line = key, line


class _TooMuchError(Exception):
    """The file stands for too many values: a few lines of aliases can unfold into more than any
    memory holds."""


def _note_lines(node: yaml.Node, where: Where, found: dict[Where, int]) -> None:
    """Note the line, from 1, on which each key or item stands."""
    found.setdefault(where, node.start_mark.line + 1)
    if len(found) > _MOST_NODES:
        raise _TooMuchError
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = (*where, str(key.value))
            if place in found:
                raise _TwiceError(str(key.value), key.start_mark.line + 1)
            found[place] = key.start_mark.line + 1
            _note_lines(value, place, found)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, (*where, index), found)


def _said(path: Path, error: ValidationError, lines: dict[Where, int]) -> str:
    found = error.errors(include_url=False, include_input=False)
    # A misspelt key is two errors; the one that stands in the file helps.
    first, *others = sorted(found, key=lambda one: one["type"] != "extra_forbidden")
    place = _known(first["loc"], lines)
    name = ".".join(str(part) for part in place) or "the study"
    wrong = _in_words(first["type"], str(first["msg"]), first["loc"])
    more = f" ({len(others)} more after that)" if others else ""
    return f"{path} line {lines.get(place, 1)}: {name}: {wrong}{more}."


def _known(loc: Where, lines: dict[Where, int]) -> Where:
    """Return the part of a pydantic location that stands in the file: unions add names of their
    own."""
    place: Where = ()
    for part in loc:
        for key in (part, str(part)):
            if (*place, key) in lines:
                place = (*place, key)
                break
    return place


def _in_words(kind: str, message: str, loc: Where) -> str:
    if kind == "extra_forbidden":
        return "a study has no such key; docs/studies.md lists them"
    if kind == "missing":
        return f"{loc[-1]} is missing"
    return message.removeprefix("Value error, ").rstrip(".")


def _mark(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f" line {mark.line + 1}"


def _problem(error: yaml.YAMLError) -> Any:
    return getattr(error, "problem", None) or str(error).splitlines()[0]
