"""What warms a level up: batches like those that its load brings, of prompts that no cache knows."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from runners.measuring.run import bursts, warm_up
from runners.planning.plan import make_plan
from runners.planning.study_file import Study
from runners.texts.prompts import PromptFile

StudyOf = Callable[..., Study]
Heard = tuple[str, list[dict[str, Any]]]


@pytest.fixture
def server() -> Iterator[Heard]:
    """The address of a server, and the requests that it heard."""
    heard: list[dict[str, Any]] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as found:
        Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}", heard
        found.shutdown()


@pytest.mark.parametrize(
    ("load", "window", "expected"),
    [
        ({"concurrent": [1]}, {}, [1, 1, 1, 1]),
        ({"concurrent": [6]}, {}, [1, 2, 4, 6]),
        ({"concurrent": [16]}, {}, [1, 2, 4, 8, 16]),
        ({"concurrent": [2000]}, {}, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
        ({"constant": [2.0]}, {}, [1, 2, 4, 8, 16, 32, 64, 128]),
        ({"concurrent": [4]}, {"warm_up_requests": 6}, [4, 2]),
        ({"concurrent": [4]}, {"warm_up_requests": 0}, []),
    ],
)
def test_bursts_double_up_to_what_the_level_has_in_flight(
    study_of: StudyOf, load: dict[str, Any], window: dict[str, int], expected: list[int]
) -> None:
    data = [{"name": "code", "generator": {"kind": "code"}, "prompts_per_level": 3000}]
    study = study_of(concurrency=None, load=load, window=window, datasets=data)
    assert bursts(study, make_plan(study).cells[0]) == expected


@pytest.mark.parametrize("spare", [(), ("alpha beta gamma delta epsilon " * 4,)])
def test_prompts_are_as_long_as_the_levels_and_begin_differently(
    study_of: StudyOf, tmp_path: Path, server: Heard, spare: tuple[str, ...]
) -> None:
    url, heard = server
    own = "one two three four five six seven eight nine ten eleven twelve"
    path = tmp_path / "c4.jsonl"
    path.write_text(json.dumps({"prompt": own}) + "\n")
    study = study_of(request={"format": "text_completions", "max_tokens": 9})
    cell = make_plan(study).cells[1]

    assert warm_up(url, study, cell, PromptFile(path, "", spare)) == [1, 2, 4]
    sent = [body["prompt"] for body in heard]
    assert len({text[:12] for text in sent}) == 7
    assert {len(text) for text in sent} == {len((*spare, own)[0])}
    assert own not in sent
    assert {body["max_tokens"] for body in heard} == {9}


def test_a_conversation_warms_up_as_one(study_of: StudyOf, tmp_path: Path, server: Heard) -> None:
    url, heard = server
    talk = [{"role": "user", "content": "Tell me of the sea, and do it at some length."}]
    data = [{"name": "talks", "file": "t.jsonl", "conversations": True}]
    study = study_of(datasets=data, concurrency=[1])
    cell = make_plan(study).cells[0]

    warm_up(
        url, study, cell, PromptFile(tmp_path / "none", "", (json.dumps(talk),), "conversation")
    )
    begun = [body["messages"][0]["content"].partition(":")[0] for body in heard]
    assert begun == [f"talks c1 {number}" for number in range(4)]


def test_a_session_warms_up_as_one_request_as_long_as_its_users_words(
    study_of: StudyOf, tmp_path: Path, server: Heard
) -> None:
    url, heard = server
    said = ["Tell me of the sea, and do it at length.", "And of the shore?"]
    text = json.dumps([{"role": "user", "content": one} for one in said])
    data = [{"name": "talks", "file": "t.jsonl", "sessions": {"turns": 2}}]
    study = study_of(datasets=data, concurrency=[1])

    warm_up(
        url, study, make_plan(study).cells[0], PromptFile(tmp_path / "none", "", (text,), "session")
    )
    assert {len(body["messages"]) for body in heard} == {1}
    assert {len(body["messages"][0]["content"]) for body in heard} == {len(" ".join(said))}
