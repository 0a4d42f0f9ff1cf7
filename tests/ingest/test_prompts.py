"""Prompt hashes: one hash for one prompt, however a report writes it."""

import hashlib

import msgspec

from examples.make_from_results import redact
from ingest.clean import prompt_text, read_arguments
from warehouse.contract import hash_text, prompt_set_hash

BODY = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "hé"}]}]}


def test_json_and_python_literal_give_the_same_prompt() -> None:
    json_text = msgspec.json.encode({"body": BODY, "method": None}).decode()
    texts = [prompt_text(read_arguments(t).body) for t in (json_text, repr({"body": BODY}))]
    assert texts == ["user: hé", "user: hé"]


def test_a_hash_is_the_first_half_of_sha256_and_a_marker_is_its_own_hash() -> None:
    expected = hashlib.sha256(b"abc").hexdigest()[:32]
    assert hash_text("abc") == expected
    assert hash_text("sha256:" + expected) == expected


def test_a_set_with_an_unknown_prompt_has_no_hash() -> None:
    assert prompt_set_hash(["a", None]) is None
    assert prompt_set_hash(["b", "a", "a"]) == prompt_set_hash(["a", "b"])


def test_redacting_keeps_the_hash_and_removes_the_texts() -> None:
    arguments = msgspec.json.encode({"body": BODY}).decode()
    record = {"request_args": arguments, "output": "secret answer"}
    report = {"benchmarks": [{"requests": {"successful": [record], "total": None}}]}
    once = redact(msgspec.json.encode(report))
    assert "hé".encode() not in once
    assert b"secret answer" not in once
    kept = msgspec.json.decode(once)["benchmarks"][0]["requests"]["successful"][0]
    text = prompt_text(read_arguments(kept["request_args"]).body)
    assert hash_text(text) == hash_text("user: hé")
    assert redact(once) == once
