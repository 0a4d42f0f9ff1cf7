"""A FAKE report format for the tests of isolation: reading it does what its file says.

It is put into ``ingest/formats`` of a copy of our code, as CONTRIBUTING.md tells a contributor to;
no result looks like this.
"""

import json
import os
import time

from ingest.model import Context, FileContent, Parsed
from warehouse.errors import InvalidInput

NAME, KIND = "poison", "a poison of the tests"


def sniff(data: memoryview) -> bool:
    return bytes(data[:10]) == b'{"poison":'


def parse(content: FileContent, context: Context) -> Parsed:
    what = json.loads(bytes(content.data[:4096]).rstrip(b" "))["poison"]
    _DOES[what](content)
    raise InvalidInput("The poison was survived.")


def _hog(content: FileContent) -> None:
    while True:
        sum(range(1000))


def _sleep(content: FileContent) -> None:
    time.sleep(3600)


def _truncate(content: FileContent) -> None:
    if len(content.data) > 100:
        os.truncate(content.path, 100)
    bytes(content.data)


def _memory(content: FileContent) -> None:
    held = []
    while True:
        held.append(bytearray(16 << 20))


def _crash(content: FileContent) -> None:
    os.abort()


def _wait(content: FileContent) -> None:
    while not content.path.with_suffix(".go").exists():
        time.sleep(0.02)


_DOES = {
    "hog": _hog, "sleep": _sleep, "truncate": _truncate, "memory": _memory, "crash": _crash,
    "wait": _wait,
}  # fmt: skip
