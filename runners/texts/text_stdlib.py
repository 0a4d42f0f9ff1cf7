"""Code and prose that every machine already has: the running Python's own library.

Nothing of it is committed. A document is one module; its code and its docstrings bear the same name,
so that a module is held out of both or of neither. Other Python versions carry slightly other texts:
the prompts' hash tells them apart.
"""

import ast
import io
import re
import sysconfig
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

#: Tests, other people's packages, generated tables and demonstrations: not the text that is meant.
SKIPPED = {"test", "tests", "site-packages", "dist-packages", "lib2to3", "idlelib", "encodings",
           "turtledemo", "ensurepip", "pydoc_data", "__pycache__", "__phello__"}  # fmt: skip
_MIN_CHARS = 400
#: Shorter docstrings ("Return the name.") in a row make a list, and a small model repeats lists.
_MIN_DOCSTRING = 100
#: An interpreter session and its output, to the end of the paragraph: not prose.
_SESSION = re.compile(r"^[ \t]*>>> .*?(?=\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)
#: Which documents are wanted, by name: the others are not even parsed.
Wanted = Callable[[str], bool]
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_documents(wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Yield name and source of each module of the standard library, without docstrings and
    comments."""
    for name, source in _modules(wanted):
        text = without_prose(source)
        if len(text) >= _MIN_CHARS:
            yield name, text


def prose_documents(wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Yield name and docstrings of each module, then each of ``pydoc``'s topics."""
    for name, source in _modules(wanted):
        text = "\n\n".join(docstrings(source))
        if len(text) >= _MIN_CHARS:
            yield name, text + "\n"
    from pydoc_data.topics import topics  # 700 kB, wanted only here

    for name in filter(lambda name: wanted(f"topic {name}"), sorted(topics)):
        yield f"topic {name}", _SESSION.sub("", topics[name]).strip() + "\n"


def docstrings(source: str) -> list[str]:
    """Return the docstrings of a module, its classes and functions, as the text has them: long and
    once each.

    Interpreter sessions are left out.
    """
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, _WITH_DOCSTRING)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    found = (ast.get_docstring(node) for node in nodes)
    cleaned = dict.fromkeys(_SESSION.sub("", text).strip() for text in found if text)
    return [text for text in cleaned if len(text) >= _MIN_DOCSTRING]


def without_prose(source: str) -> str:
    """Return source without docstrings and comments; no two blank lines in a row."""
    dropped = _docstring_lines(source)
    comments = _comment_starts(source)
    kept: list[str] = []
    for number, line in enumerate(source.splitlines(), start=1):
        if number in dropped:
            continue
        text = line[: comments[number]] if number in comments else line
        text = text.rstrip()
        if text or (number not in comments and kept and kept[-1]):
            kept.append(text)
    return "\n".join(kept).strip("\n") + "\n"


def _docstring_lines(source: str) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def _comment_starts(source: str) -> dict[int, int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.start[1] for t in tokens if t.type == tokenize.COMMENT}


def _modules(wanted: Wanted) -> Iterator[tuple[str, str]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if _meant(place) and wanted(place.as_posix()):
            source = _read(path)
            if source is not None:
                yield place.as_posix(), source


def _meant(place: Path) -> bool:
    generated = place.name.startswith(("_sysconfigdata", "test_"))
    return SKIPPED.isdisjoint(place.parts) and not generated


def _read(path: Path) -> str | None:
    """Return the module's text; None where it is not Python of this version (templates, old
    encodings)."""
    try:
        source = path.read_text(encoding="utf-8")
        ast.parse(source)
    except (UnicodeDecodeError, SyntaxError):
        return None
    return source
