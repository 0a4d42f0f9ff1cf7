"""Built-in texts: code, prose and structured documents, and the prompts cut from them.

One document in twelve is held out: prompts come from these alone, the lab's models are trained on
the others (``runners/lab``). Which ones is decided by the document's name, so the rule holds
on every machine and for every Python version.
"""

import ast
import contextlib
import hashlib
import io
import json
import re
import sysconfig
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal, get_args

# --- Structured text from a seed: JSON records, log lines, YAML manifests and XML feeds.
#
# A document's number is its seed, so document 17 is the same text everywhere. Fields come and go
# and names come back within their document, or the draft would guess nearly everything.


_NAMES = ("alpha", "birch", "cedar", "delta", "ember", "falcon", "garnet", "harbor", "indigo",
          "juniper", "kestrel", "lumen", "maple", "nimbus", "onyx", "pioneer", "quartz", "raven",
          "saffron", "tundra", "umber", "vertex", "willow", "xenon", "yarrow", "zephyr")  # fmt: skip
_PARTS = ("api", "auth", "billing", "cache", "catalog", "events", "gateway", "ingest", "ledger",
          "mailer", "orders", "payments", "profile", "queue", "report", "search", "worker")  # fmt: skip
_CITIES = ("Athens", "Bergen", "Cairo", "Dakar", "Essen", "Fukuoka", "Geneva", "Hanoi", "Izmir",
           "Jakarta", "Kyoto", "Lima", "Madrid", "Nairobi", "Oslo", "Porto", "Quito", "Riga")  # fmt: skip
_STATES = ("active", "pending", "closed", "suspended")
_PATHS = ("items", "users", "orders", "health", "login", "search", "carts", "invoices")


def _structured_documents(wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    # The name and the text of each document that is wanted. There are 1,200 of 1.4 kB each,
    # in four forms by turns.
    # 1.5 MB of characters to train on and 125 kB to ask about.
    for number in range(1200):
        name = f"structured {number:04d}"
        if wanted(name):
            yield name, _FORMS[number % len(_FORMS)](Random(name))


def _service(rng: Random) -> str:
    return f"{rng.choice(_NAMES)}-{rng.choice(_PARTS)}"


def _day(rng: Random) -> str:
    return f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _order(rng: Random, number: int, customers: list[str]) -> dict[str, object]:
    lines = [
        {"sku": f"{rng.choice(_NAMES)[:3].upper()}-{rng.randint(100, 999)}",
         "quantity": rng.randint(1, 9), "unit_price": rng.randint(100, 9999) / 100}
        for _ in range(rng.randint(1, 3))
    ]  # fmt: skip
    order: dict[str, object] = {
        "id": number,
        "status": rng.choice(_STATES),
        "customer": {"name": rng.choice(customers), "city": rng.choice(_CITIES)},
        "created": f"{_day(rng)}T{_clock(rng.randrange(86400))}Z",
        "lines": lines,
    }
    if rng.random() < 0.5:
        order["reference"] = f"{rng.getrandbits(32):08x}"
    return order | {"paid": rng.random() < 0.7}


def _json(rng: Random) -> str:
    first, customers = rng.randint(1000, 9000), [name.title() for name in rng.sample(_NAMES, 3)]
    orders = [_order(rng, first + i, customers) for i in range(rng.randint(2, 6))]
    body = {"service": _service(rng), "page": rng.randint(1, 40), "count": len(orders),
            "orders": orders}  # fmt: skip
    return json.dumps(body, indent=2) + "\n"


def _log(rng: Random) -> str:
    day, second = _day(rng), rng.randrange(80000)
    services, users = [_service(rng) for _ in range(3)], rng.sample(_NAMES, 3)
    lines = []
    for _ in range(rng.randint(12, 30)):
        second += rng.randint(0, 7)
        level = rng.choices(("INFO", "WARN", "ERROR"), (16, 3, 1))[0]
        path, code = rng.choice(_PATHS), {"INFO": 200, "WARN": 404, "ERROR": 500}[level]
        method = rng.choice(("GET", "GET", "POST", "PUT"))
        user = f" user={rng.choice(users)}" if rng.random() < 0.6 else ""
        lines.append(
            f"{day}T{_clock(second)}Z {level} {rng.choice(services)} {method} "
            f"/v1/{path}/{rng.randint(1, 999)}{user} {code} {rng.randint(1, 4000) / 10}ms"
        )
    return "\n".join(lines) + "\n"


def _yaml(rng: Random) -> str:
    service, port = _service(rng), rng.choice((8000, 8080, 9000, 9090))
    others = rng.sample(_NAMES, 3)
    variables = "".join(
        f"            - name: {name.upper()}_{rng.choice(('URL', 'TOKEN', 'LEVEL', 'SIZE'))}\n"
        f"              value: {json.dumps(rng.choice(others))}\n"
        for name in rng.sample((*_PARTS, *others), rng.randint(1, 5))
    )
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n"
        f"  name: {service}\n  namespace: {rng.choice(others)}\n  labels:\n    app: {service}\n"
        f"spec:\n  replicas: {rng.randint(1, 9)}\n  selector:\n    matchLabels:\n"
        f"      app: {service}\n  template:\n    metadata:\n      labels:\n        app: {service}\n"
        f"    spec:\n      containers:\n        - name: {service}\n"
        f"          image: registry.example.com/{service}:{rng.randint(1, 9)}.{rng.randint(0, 20)}\n"
        f"          ports:\n            - containerPort: {port}\n          env:\n{variables}"
        f"          resources:\n            limits:\n              cpu: {rng.randint(1, 8)}00m\n"
        f"              memory: {rng.choice((128, 256, 512, 1024))}Mi\n"
    )


def _xml(rng: Random) -> str:
    makers, entries = [name.title() for name in rng.sample(_NAMES, 3)], []
    for _ in range(rng.randint(3, 8)):
        words = " ".join(rng.sample(_NAMES, 2))
        note = f"    <note>{words}</note>\n" if rng.random() < 0.5 else ""
        entries.append(
            f'  <item id="{rng.randint(1, 9999):04d}" state="{rng.choice(_STATES)}">\n'
            f"    <name>{rng.choice(_NAMES)}</name>\n    <maker>{rng.choice(makers)}</maker>\n{note}"
            f"    <origin>{rng.choice(_CITIES)}</origin>\n    <updated>{_day(rng)}</updated>\n"
            f'    <price currency="EUR">{rng.randint(100, 9999) / 100:.2f}</price>\n  </item>\n'
        )
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<catalog name="{_service(rng)}">\n'
    return head + "".join(entries) + "</catalog>\n"


_FORMS: tuple[Callable[[Random], str], ...] = (_json, _log, _yaml, _xml)


# --- Code and prose that every machine already has: the running Python's own library.
#
# Nothing of it is committed. A document is one module; its code and its docstrings bear the same name,
# so that a module is held out of both or of neither. Other Python versions carry slightly other texts:
# the prompts' hash tells them apart.


#: Tests, other people's packages, generated tables and demonstrations: not the text that is meant.
SKIPPED = {"test", "tests", "site-packages", "dist-packages", "lib2to3", "idlelib", "encodings",
           "turtledemo", "ensurepip", "pydoc_data", "__pycache__", "__phello__"}  # fmt: skip
_MIN_CHARS = 400
#: An interpreter session and its output, to the end of the paragraph: not prose.
_SESSION = re.compile(r"^[ \t]*>>> .*?(?=\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)
#: Which documents are wanted, by name: the others are not even parsed.
Wanted = Callable[[str], bool]
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _code_documents(wanted: Wanted) -> Iterator[tuple[str, str]]:
    # Name and source of each module of the standard library, without docstrings and comments.
    for name, source in _modules(wanted):
        text = without_prose(source)
        if len(text) >= _MIN_CHARS:
            yield name, text


def _prose_documents(wanted: Wanted) -> Iterator[tuple[str, str]]:
    # Name and docstrings of each module, then each of ``pydoc``'s topics.
    for name, source in _modules(wanted):
        # The docstrings of a module, its classes and functions, as the text has them: long and
        # once each.
        # Interpreter sessions are left out.
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, _WITH_DOCSTRING)]
        nodes.sort(key=lambda node: getattr(node, "lineno", 0))
        found = (ast.get_docstring(node) for node in nodes)
        cleaned = dict.fromkeys(_SESSION.sub("", text).strip() for text in found if text)
        # Shorter docstrings ("Return the name.") in a row make a list, and a small model repeats lists.
        text = "\n\n".join([text for text in cleaned if len(text) >= 100])
        if len(text) >= _MIN_CHARS:
            yield name, text + "\n"
    from pydoc_data.topics import topics  # 700 kB, wanted only here

    for name in filter(lambda name: wanted(f"topic {name}"), sorted(topics)):
        yield f"topic {name}", _SESSION.sub("", topics[name]).strip() + "\n"


def without_prose(source: str) -> str:
    """Return source without docstrings and comments; no two blank lines in a row."""
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            dropped |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {t.start[0]: t.start[1] for t in tokens if t.type == tokenize.COMMENT}
    kept: list[str] = []
    for number, line in enumerate(source.splitlines(), start=1):
        if number in dropped:
            continue
        text = line[: comments[number]] if number in comments else line
        text = text.rstrip()
        if text or (number not in comments and kept and kept[-1]):
            kept.append(text)
    return "\n".join(kept).strip("\n") + "\n"


def _modules(wanted: Wanted) -> Iterator[tuple[str, str]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        generated = name.name.startswith(("_sysconfigdata", "test_"))
        if generated or not SKIPPED.isdisjoint(name.parts) or not wanted(name.as_posix()):
            continue
        with contextlib.suppress(UnicodeDecodeError, SyntaxError):
            source = path.read_text(encoding="utf-8")
            ast.parse(source)  # Not every file is Python of this version: templates, old encodings.
            yield name.as_posix(), source


# --- Built-in texts: code, prose and structured documents, and the prompts cut from them.


Kind = Literal["code", "structured", "prose"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SOURCES: dict[Kind, Callable[[Callable[[str], bool]], Iterator[tuple[str, str]]]] = {
    "code": _code_documents,
    "structured": _structured_documents,
    "prose": _prose_documents,
}


@dataclass(frozen=True)
class Document:
    """One text; its name says where it comes from and whether it is held out."""

    name: str
    text: str


@cache
def documents(kind: Kind, held_out: bool) -> tuple[Document, ...]:
    """Return the documents of a kind to ask about, or to train on.

    Ordered by a hash of their names, so that the first few are a fair sample of all."""
    found = _SOURCES[kind](lambda name: (int(_digest(name)[:16], 16) % 12 == 0) is held_out)
    return tuple(Document(*pair) for pair in sorted(found, key=lambda pair: _digest(pair[0])))


def prompts(kind: Kind, min_chars: int = 150, max_chars: int = 320) -> list[str]:
    """Return every prompt that the held-out documents give: distinct, none overlapping another.

    A prompt starts at a line's start, ends at a line's end, and has between ``min_chars`` and
    ``max_chars`` characters; its length is drawn from a seed of the document's own.
    """
    found: dict[str, None] = {}
    for document in documents(kind, held_out=True):
        found.update(dict.fromkeys(_cut(document, min_chars, max_chars)))
    return list(found)


def _cut(document: Document, min_chars: int, max_chars: int) -> Iterator[str]:
    rng = Random(document.name)
    wanted, text = rng.randint(min_chars, max_chars), ""
    for line in document.text.splitlines(keepends=True):
        if len(text) + len(line) > max_chars:
            text = ""  # too short as it stands, too long with this line
        text = (text + line if text else line.lstrip("\n"))[: max_chars + 1]
        if wanted <= len(text.rstrip()) <= max_chars:
            yield text.rstrip()
            wanted, text = rng.randint(min_chars, max_chars), ""


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


# --- The lab's training text: all three kinds, none of it held out, none of it kept.


#: Characters of each kind. Structured text is learnt soon; prose is short of text to learn from.
_TRAINING_CHARS: Mapping[Kind, int] = {"code": 1_500_000, "structured": 700_000, "prose": 1_500_000}


def training_documents(
    chars: Mapping[Kind, int] = _TRAINING_CHARS, seed: int = 0
) -> list[Document]:
    """Return documents of all kinds, up to so many characters of each (the last one may be cut),
    shuffled together by seed."""
    chosen: list[Document] = []
    for kind in KINDS:
        left = chars[kind]
        for document in documents(kind, held_out=False):
            if left <= 0:
                break
            chosen.append(Document(document.name, document.text[:left]))
            left -= len(document.text)
    Random(seed).shuffle(chosen)
    return chosen


def held_out_text(kind: Kind, chars: int = 60_000) -> str:
    """Return a stretch of held-out text, to measure on."""
    return "".join(d.text for d in documents(kind, held_out=True))[:chars]


def corpus_hash(corpus: list[Document]) -> str:
    """Return a hash that tells whether two trainings read the same text."""
    return _digest("\0".join(d.text for d in corpus))[:32]
