"""Which file beside a report tells its facts."""

import json
from pathlib import Path

import pytest

from ingest.settings import facts_beside
from warehouse.errors import InvalidInput


@pytest.mark.parametrize(
    ("report", "own"),
    [
        ("qwen2.5-7b-c8.json", "qwen2.5-7b-c8.meta.json"),
        ("qwen2.5-7b-c8.jsonl", "qwen2.5-7b-c8.meta.json"),
        ("llama-3.1.yaml.gz", "llama-3.1.meta.json"),
        ("x.json.zst", "x.meta.json"),
        ("x.csv", "x.meta.json"),
        ("x", "x.meta.json"),
    ],
)
def test_a_report_has_the_facts_of_the_file_with_its_name(
    tmp_path: Path, report: str, own: str
) -> None:
    (tmp_path / own).write_text(json.dumps({"gpu": "H200"}))
    assert facts_beside(tmp_path / report) == {"gpu": "H200"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"gpu": "H200"', "it ends in the middle"),
        ('{"gpu_count": "two"}', r"meta\.json: gpu_count='two' .* a whole number belongs there\.$"),
    ],
)
def test_a_file_of_facts_that_cannot_be_read_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(InvalidInput, match=said):
        facts_beside(tmp_path / "x.json")


def test_a_report_has_no_facts_of_a_name_that_its_own_begins_with(tmp_path: Path) -> None:
    (tmp_path / "qwen2.meta.json").write_text(json.dumps({"model": "qwen2"}))
    (tmp_path / "meta.json").write_text(json.dumps({"gpu": "H200"}))
    assert facts_beside(tmp_path / "qwen2.5-7b.json") == {"gpu": "H200"}
