"""The published contract is the one that the code checks."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from warehouse.contract import FACT_KEYS, Record

SCHEMA = Path(__file__).parents[2] / "docs" / "record.schema.json"
RECORD = {
    "schema_version": 1,
    "study": "first",
    "arm": "eagle3-k3",
    "repeat": 0,
    "model": "tiny",
    "gpu": "H200",
    "tensor_parallel_size": 1,
    "dataset": "HumanEval",
    "concurrency": 8,
    "spec_method": "eagle3",
    "num_speculative_tokens": 3,
    "speculative_config": {"method": "eagle3"},
    "evidence": "gpu",
    "started_at": "2026-01-02T03:04:05Z",
    "commands": {"vllm": ["vllm serve tiny"]},
}


def test_the_published_schema_is_current():
    assert SCHEMA.read_text(encoding="utf-8") == (
        json.dumps(Record.model_json_schema(), indent=2) + "\n"
    )


def test_a_record_validates_and_what_it_leaves_out_is_unknown():
    record = Record.model_validate_json(json.dumps(RECORD))
    assert record.started_at is not None
    assert record.started_at.tzinfo is not None
    assert (record.model, record.status, record.report) == ("tiny", "good", "guidellm.json")
    unsaid = set(FACT_KEYS) - RECORD.keys()
    assert all(getattr(record, key) is None for key in unsaid)


def test_every_field_stands_in_the_published_schema():
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert set(published["properties"]) == set(Record.model_fields)
    assert published["additionalProperties"] is False
    assert published["required"] == ["schema_version"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema_version": 2}, {"gpus": 1}, {"concurrency": 0}, {"temperature": float("nan")},
        {"evidence": "guess"}, {"top_p": 1.5}, {"status": "fine"}, {"model": ""},
    ],
)  # fmt: skip
def test_a_wrong_record_is_refused(wrong):
    with pytest.raises(ValidationError):
        Record.model_validate({**RECORD, **wrong})
