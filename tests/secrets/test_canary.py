"""No credential that lies in a result is anywhere in what Draftboard writes; nothing else is touched."""

import functools
import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import draftboard
from analysis.published.claims_file import read_claims
from ingest.pipeline import IngestOutcome
from ingest.watch import WatchLog
from nightly import messages
from nightly.messages import events
from nightly.nights import write_summary as write_night
from runners.surroundings.machine import public
from tests.nightly.test_history import night
from tests.secrets.forms import FORMS, STRUCTURED, ordinary
from tests.secrets.others import OTHERS, Other
from tests.secrets.planted import (
    SECRETS,
    TEXTS,
    Made,
    bench,
    drops,
    found_in,
    planted,
    planting,
    report,
    reports,
    said_in,
)  # fmt: skip
from warehouse import annotations
from warehouse.beside import Failure, Stage, published_tables
from warehouse.rows import Rejection
from warehouse.secrets import scrub, scrub_text
from warehouse.store import Reader

ROOT = Path(__file__).parents[2]
_SOURCE = re.compile(r"(?m)^  source:.*$")
Plant = Callable[[Path, int], None]


def _printed(text: str) -> str:
    """As a terminal or a form hands it on, which keeps no other control character than a line's end."""
    return text.replace("\x1b", "")


def _command(*words: object) -> Result:
    return CliRunner().invoke(draftboard.cli, [str(word) for word in words])


def _file(sample: dict[str, Any]) -> Plant:
    walked = functools.cache(lambda: planting(sample))

    def plant(folder: Path, turn: int) -> None:
        (folder / f"{turn}.json").write_text(json.dumps(walked()(turn)), "utf-8")

    return plant


def _sweep(folder: Path, turn: int) -> None:
    run = bench(True) | {"run_number": 0, "_benchmark_name": "x", "--dtype": "auto"}
    run["speculative_config"] = {"method": "ngram", "num_speculative_tokens": 2, "model": "m"}
    _file(run)(folder, turn)


@functools.cache
def _newest() -> Made:
    return planting(report("g4-0.8.1.json.zst"))


def _of_unknown_version(folder: Path, turn: int) -> None:
    sample = _newest()(turn)
    sample["metadata"] = sample["metadata"] | {"guidellm_version": TEXTS[turn % len(TEXTS)]}
    (folder / f"{turn}.json").write_text(json.dumps(sample), "utf-8")


def _drop(folder: Path, turn: int) -> None:
    # A few pairs are enough for a report with answers.
    for place in drops() if turn < 10 else drops()[:1]:
        drop = folder / f"{turn}" / place.parent.name
        shutil.copytree(place, drop)
        record = json.loads((place / "record.json").read_bytes())
        record |= {"failure": "x", "log_excerpt": ["x"] * 6, "provenance": "x"}
        record["commands"] = {"vllm": ["x"] * 4, "guidellm": ["x"] * 4}
        record["server_args"] = {"a": "x", "b": ["x"], "c": {"d": "x"}}
        record["speculative_config"] = (record.get("speculative_config") or {}) | {"e": "x"}
        (drop / "record.json").write_text(json.dumps(planted(record, turn)), "utf-8")
        text = TEXTS[turn % len(TEXTS)].replace("\n", " ")
        (drop / "metrics-before.prom").write_text(f'vllm:prompt_tokens{{a="{text}"}} 1\n# {text}\n')


def _other(sample: Other) -> Plant:
    def plant(folder: Path, turn: int) -> None:
        sample.write(folder / str(turn), lambda value: json.dumps(planted(value, turn)).encode())

    return plant


FORMATS: dict[str, Plant] = {
    **{name: _file(report(name)) for name in reports()},
    "GuideLLM of an unknown version": _of_unknown_version,
    "vllm bench": _file(bench(False)),
    "vllm bench --save-detailed": _file(bench(True)),
    "vllm bench sweep": _sweep,
    "drop": _drop,
    **{name: _other(sample) for name, sample in OTHERS.items()},
}


#: Formats of one warehouse: what is written of it is looked through once for all of them.
TOGETHER = 6


@pytest.mark.slow
@pytest.mark.parametrize("first", range(-(-len(FORMATS) // TOGETHER)))
def test_no_credential_of_a_result_reaches_what_draftboard_writes(
    first: int, tmp_path: Path
) -> None:
    """Every form stands once in every text of the format."""
    forms = list(FORMATS)[first :: -(-len(FORMATS) // TOGETHER)]
    root = tmp_path / "warehouse"
    for form in forms:
        results = tmp_path / "results" / form
        results.mkdir(parents=True)
        for turn in range(len(TEXTS)):
            FORMATS[form](results, turn)
        assert found_in(said_in(results)) != [], form
        told = _command("ingest", results, "--warehouse", root, "--keep-text", "--json")
        accepted = json.loads(told.stdout)["accepted"]
        assert accepted >= 0.9 * len(TEXTS), (form, told.stdout[-2000:])
        assert found_in(told.output) == [], form
        shutil.rmtree(results)
    for words in (
        ("share", "--out", tmp_path / "bundle", "--with-texts"),
        ("warehouse", "export", "--out", tmp_path / "export"),
        ("report", "--out", tmp_path / "report.html"),
        ("runs", "--json"),
        ("verdict", "--all"),
    ):
        assert found_in(_command(*words, "--warehouse", root).output) == []
    for place in ("bundle", "export"):
        assert (tmp_path / place).is_dir()
    assert "drop" not in forms or (tmp_path / "report.html").is_file()
    assert found_in(said_in(tmp_path)) == []


def test_a_credential_in_the_name_of_a_file_or_folder_is_not_kept(
    run: Any, write: Any, tmp_path: Path
) -> None:
    names = [_printed(text)[:200] for text in TEXTS if "/" not in text]
    assert len([name for name in names if found_in(name)]) == len(names) > 60
    for number, name in enumerate(names):
        sample = bench(True) | {"date": f"20261121-09{number // 60:02d}{number % 60:02d}"}
        write(f"in/{name}.json" if number % 2 else f"in/{name}/x.json", sample)
        write(f"in/bad {name}.json", "{")
    done = run(tmp_path / "in", "--json")
    assert done.json["accepted"] == len(names)
    assert found_in(done.out + done.err + said_in(run.root)) == []


def test_a_published_table_is_kept_without_credentials_and_can_be_read(
    run: Any, write: Any
) -> None:
    whole = (ROOT / "examples" / "claims" / "published-study.yaml").read_text("utf-8")
    # Its first row is enough: a table is read once for each of the texts.
    table = whole[: whole.index("\n", whole.index("  - {dataset:"))]
    tables = []
    for number, text in enumerate(TEXTS):
        line = " ".join(_printed(text).split()).replace("'", "''")
        told = _SOURCE.sub(lambda _, said=f"  source: '{line}'": said, table)
        assert told != table
        tables.append(write(f"published-{number}.yaml", told))
    done = run(*tables, "--json").json
    # What is alike without its credential is known already.
    assert done["accepted"] + done["known"] == len(TEXTS)
    token = TEXTS[list(FORMS).index("hf_")]
    told = _SOURCE.sub(f"  source: {token}", table)
    assert run(write("published-x.yaml", told), "--json").json["accepted"] == 1
    assert found_in(said_in(run.root)) == []
    for one in published_tables(run.root):
        assert read_claims(one.text, one.name)


def test_no_credential_reaches_a_note_a_night_a_message_or_a_log(
    run: Any, write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write("r.json", bench(True))).status == 0
    for text in TEXTS:
        line = " ".join(_printed(text).split())
        event = annotations.annotation(
            "note", annotations.AnnotationTarget(night="2026-11-21"), line, line[:80]
        )
        annotations.add(run.root, event)
        stage = Stage(name="run", status="failed", said=text)
        failed = Failure(cell="c", said=text)
        one = night(stages=(stage,), failures=(failed,), started=datetime.now(UTC))
        write_night(run.root, one)
        found = events(one, None, messages.Outbox(), "")
        box = messages.queued(messages.Outbox(), found, ["x"], "n")
        assert box.waiting
        messages.write(run.root, one.study, box)
        assert found_in(said_in(run.root)) == []
        WatchLog().batch(IngestOutcome(rejected=[Rejection(text, text)]))
        WatchLog().trouble(text)
    assert found_in(capsys.readouterr().out) == []
    with Reader(run.root) as reader:
        assert len(annotations.read(reader.root)) == len(TEXTS)


@pytest.mark.parametrize("name", [*FORMS, *(f"{{}} {name}" for name in STRUCTURED)])
def test_every_form_is_found_wherever_it_stands(name: str) -> None:
    make = {**FORMS, **{f"{{}} {key}": made for key, made in STRUCTURED.items()}}[name]
    for seed in range(5):
        value, secret = make(f"{name}{seed}")
        held = [value, {"deep": [{"er": value}]}, [["x"], value], {"commands": {"vllm": value}}]
        if isinstance(value, str):
            held += [f"He said: {value} and went.", f"({value})", f"x\n{value}\ny", [value, value]]
            held += [json.dumps({"said": value}), repr([value]), f"{value}\n" * 3]
        for one in held:
            clean = scrub(one)
            assert secret not in repr(clean), (one, clean)
            assert scrub(clean) == clean, "taken out twice"
            assert secret not in repr(public(one))


@pytest.mark.parametrize("value", ordinary())
def test_an_ordinary_value_comes_through_unchanged(value: str) -> None:
    assert scrub_text(value) == value
    held = {"revision": value, "args": ["serve", value], "note": f"It was {value}, as planned."}
    assert scrub(held) == held


def test_every_drop_keeps_its_serve_line_and_all_that_it_takes_to_measure_it_again() -> None:
    """What is taken out of a text is what nobody needs: of each record nothing is."""
    records = [
        *(ROOT / "examples").rglob("record.json"),
        *(ROOT / "tests" / "fixtures").rglob("record.json"),
    ]
    told_of = [json.loads(record.read_bytes()) for record in records]
    assert sum("commands" in told for told in told_of) > 20
    for record, told in zip(records, told_of, strict=True):
        assert scrub(told) == told, record


def test_there_are_as_many_of_them_as_promised() -> None:
    assert len(ordinary()) == len(set(ordinary())) == 500
    assert len(SECRETS) == len(set(SECRETS.values())) >= 100
