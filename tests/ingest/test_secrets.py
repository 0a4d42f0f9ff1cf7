"""Credentials are taken out wherever they stand, and nothing else is."""

import gzip
import json
from typing import Any

import pytest

from warehouse.secrets import scrub

SECRET = "s3cr3t-value-9f8e7d"


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": SECRET},
        {"backend": [{"kwargs": {"OPENAI_API_KEY": SECRET}}]},
        {"headers": {"Authorization": f"Bearer {SECRET}", "x-api-key": SECRET}},
        {"env": {"HF_TOKEN": SECRET}, "password": SECRET},
        ["vllm", "serve", "--api-key", SECRET],
        ["vllm", "serve", f"--api-key={SECRET}"],
        ["curl", "-H", f"Authorization: Bearer {SECRET}"],
        f"HF_TOKEN={SECRET} vllm serve m --api-key {SECRET} --port 1",
        f"https://user:{SECRET}@host/v1",
        f"https://host/v1?access_token={SECRET}&x=1",
        f"{{'api_key': '{SECRET}', 'model': 'm'}}",
        f'{{"api_key": "{SECRET}"}}',
        f"401: Authorization: Basic {SECRET}",
    ],
)
def test_a_credential_is_removed_at_any_depth_and_in_any_spelling(value: Any) -> None:
    assert SECRET not in repr(scrub(value))


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 5, "eos_token": "</s>", "first_token": 1.5, "tokenizer": "a/b"},
        ["guidellm", "--max-tokens", "5", "--data-args", "{}"],
        "max_tokens=5 output_tokens: 7 https://host:8000/v1?limit=3",
        "the token budget: 5, a basic understanding, keys and values",
        {"api_key": None, "stream": True},
    ],
)
def test_what_is_no_credential_stays_as_it_is(value: Any) -> None:
    assert scrub(value) == value


def test_a_secret_of_a_report_is_nowhere_in_the_warehouse_or_the_output(
    run: Any, write: Any, report: Any
) -> None:
    data = report()
    data["config"]["spec"]["backend"] |= {"api_key": SECRET, "target": f"http://u:{SECRET}@h/v1"}
    data["benchmarks"][0]["config"]["backend"]["api_key"] = SECRET
    failed = data["benchmarks"][0]["requests"]["successful"].pop()
    failed["info"] |= {"status": "errored", "error": f"401 Authorization: Bearer {SECRET}"}
    data["benchmarks"][0]["requests"]["errored"] = [failed]
    done = run(write("report.json", data), "--json")
    assert done.json["accepted"] == 1
    assert SECRET.encode() not in run.stored_bytes()
    assert SECRET not in done.out + done.err


def test_a_secret_of_a_record_is_nowhere_in_the_warehouse(
    run: Any, write: Any, report: Any
) -> None:
    record = {
        "schema_version": 1,
        "report": "guidellm.json",
        "commands": {"vllm": ["vllm", "serve", "m", "--api-key", SECRET]},
        "environment": {"HF_TOKEN": SECRET, "image": f"https://x:{SECRET}@registry/i"},
        "server_args": {"api_key": SECRET},
    }
    write("drop/guidellm.json", report())
    folder = write("drop/record.json", record).parent
    done = run(folder, "--set", f'server_args={{"api_key": "{SECRET}"}}', "--json")
    assert done.json["accepted"] == 1
    assert SECRET.encode() not in run.stored_bytes()


def test_a_secret_of_a_compressed_report_is_not_stored_either(
    run: Any, write: Any, bench: Any
) -> None:
    packed = gzip.compress(json.dumps(bench(api_key=SECRET)).encode())
    assert run(write("bench.json.gz", packed), "--json").json["accepted"] == 1
    assert SECRET.encode() not in run.stored_bytes()
