"""Opening foreign files: packed, damaged, absurd."""

import gzip
import hashlib
import random
from pathlib import Path

import pytest
import zstandard

from ingest.discovery import sniff
from ingest.model import open_content
from warehouse.errors import InvalidInput

TEXT = b'{"benchmarks": []}'


@pytest.mark.parametrize(
    "packed",
    [
        TEXT,
        gzip.compress(TEXT, mtime=0),
        zstandard.compress(TEXT),
        zstandard.compress(TEXT[:5]) + zstandard.compress(TEXT[5:]),
    ],
)
def test_packed_or_not_the_content_and_its_hash_are_the_same(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "report"
    path.write_bytes(packed)
    content = open_content(path)
    assert bytes(content.data) == TEXT
    assert content.sha256() == hashlib.sha256(TEXT).hexdigest()


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b" \n ", "white space"),
        (b"\x7fELF\0\0\0", "binary"),
        ('{"a": "ü"}'.encode("utf-16"), "UTF-16"),
        ('{"a": "ü"}'.encode("latin-1"), "UTF-8"),
        (b"[" * 5_000_000, "nested"),
        (gzip.compress(TEXT, mtime=0)[:-9], "cut off"),
        (zstandard.compress(TEXT)[:-3], "cut off"),
        (zstandard.compress(TEXT * 9) + zstandard.compress(TEXT)[:-3], "cut off"),
        (zstandard.compress(random.Random(1).randbytes(9_000))[:-3], "cut off"),
        (zstandard.compress(TEXT)[:5], "cut off"),
        (zstandard.compress(b" " * 50_000_000), "unpacks"),
        (gzip.compress(b" " * 50_000_000, mtime=0), "unpacks"),
    ],
)
def test_what_cannot_be_a_report_is_refused_with_one_sentence(
    tmp_path: Path, data: bytes, word: str
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=word) as caught:
        open_content(path)
    assert "\n" not in str(caught.value)


def test_deep_nesting_inside_a_report_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b'{"benchmarks": [], "args": ' + b"[" * 1_000_000)
    content = open_content(path)
    with pytest.raises(InvalidInput):
        sniff(content).parse(content, None)  # type: ignore[arg-type]
