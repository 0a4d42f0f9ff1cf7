"""Reading a study file: what is wrong with it is said with the line on which it stands."""

from pathlib import Path

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
        written = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" line {mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise StudyError(f"{path}{line} is not YAML: {problem}.") from None
    except RecursionError:
        raise StudyError(f"{path}{_TOO_MUCH}") from None
    except _NoStudyError as error:
        raise StudyError(f"{path}{error}") from None
    if not isinstance(written, dict):
        raise StudyError(f"{path} holds no study; start from one of the files in studies/.")
    try:
        return Study.model_validate(written).placed(path.parent)
    except ValidationError as error:
        raise StudyError(_sentence(path, error, lines)) from None


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


class _NoStudyError(Exception):
    """Says what of a file keeps it from being read, as the rest of a sentence."""


#: A few lines of aliases can unfold into more than any memory holds.
_TOO_MUCH = (
    f" comes to more than {_MOST_NODES} values once its aliases are written out, or holds itself; "
    "write it without aliases (*name)."
)


def _note_lines(node: yaml.Node, where: Where, found: dict[Where, int]) -> None:
    """Note the line, from 1, on which each key or item stands."""
    found.setdefault(where, node.start_mark.line + 1)
    if len(found) > _MOST_NODES:
        raise _NoStudyError(_TOO_MUCH)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place, line = (*where, str(key.value)), key.start_mark.line + 1
            if place in found:
                raise _NoStudyError(f" line {line}: {key.value} stands twice; keep one.")
            found[place] = line
            _note_lines(value, place, found)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, (*where, index), found)


def _sentence(path: Path, error: ValidationError, lines: dict[Where, int]) -> str:
    found = error.errors(include_url=False, include_input=False)
    # A misspelt key is two errors; the one that stands in the file helps.
    first, *others = sorted(found, key=lambda each: each["type"] != "extra_forbidden")
    place: Where = ()
    for part in first["loc"]:  # Unions add names of their own, which do not stand in the file.
        place = next(((*place, key) for key in (part, str(part)) if (*place, key) in lines), place)
    name = ".".join(str(part) for part in place) or "the study"
    wrong = {
        "extra_forbidden": "a study has no such key; docs/studies.md lists them",
        "missing": f"{first['loc'][-1]} is missing" if first["loc"] else "",
    }.get(first["type"], str(first["msg"]).removeprefix("Value error, ").rstrip("."))
    more = f" ({len(others)} more after that)" if others else ""
    return f"{path} line {lines.get(place, 1)}: {name}: {wrong}{more}."
