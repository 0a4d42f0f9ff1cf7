"""Nodes drop results into a bucket; one ingest, or one watcher, takes them in."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from draftboard import cli
from warehouse.storage.cache import warehouse_path
from warehouse.storage.current import current_generation, pull
from warehouse.storage.objects import ObjectStore

ROOT = Path(__file__).parents[2]
DROPS = sorted(path.parent for path in (ROOT / "tests/fixtures/lab-first").rglob("record.json"))


def drop(inbox, folder, name):
    """Copy a result drop into the bucket, file by file, as a node would."""
    store = ObjectStore(inbox)
    for path in sorted(folder.iterdir()):
        store.send(path, f"{name}/{path.name}")


def ingested(bucket, *more):
    done = CliRunner().invoke(
        cli, ["ingest", f"{bucket.url}-inbox", "--warehouse", bucket.url, "--json", *more]
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_what_nodes_dropped_into_an_inbox_is_taken_in_once(bucket):
    bucket.at("reader")
    drop(f"{bucket.url}-inbox", DROPS[0], "node-1/cell")
    assert ingested(bucket)["accepted"] == 1
    drop(f"{bucket.url}-inbox", DROPS[1], "node-2/cell")
    found = ingested(bucket)
    assert (found["accepted"], found["known"]) == (1, 1)
    bucket.front.requests.clear()
    assert ingested(bucket)["accepted"] == 0
    assert not [one for one in bucket.front.requests if "GET" in one and "record.json" in one]


@pytest.mark.slow
def test_a_watcher_of_an_inbox_takes_in_what_comes(bucket):
    bucket.at("watcher")
    command = [sys.executable, "-m", "draftboard", "ingest", "--watch", f"{bucket.url}-inbox"]
    with subprocess.Popen(
        [*command, "--warehouse", bucket.url, "--interval", "0.2"], cwd=ROOT, stdout=subprocess.PIPE
    ) as watcher:
        drop(f"{bucket.url}-inbox", DROPS[0], "cell")
        root, until = bucket.at("reader"), time.monotonic() + 120
        while not current_generation(root) and time.monotonic() < until:
            time.sleep(0.5)
            pull(root)
        watcher.send_signal(signal.SIGTERM)
        watcher.communicate()
        assert watcher.returncode == 0
    assert current_generation(root) == 1


def test_an_inbox_that_is_not_there_is_one_sentence(bucket):
    done = CliRunner().invoke(
        cli, ["ingest", "s3://nobody-has-this/inbox", "--warehouse", bucket.url]
    )
    assert done.exit_code == 1
    assert "s3://nobody-has-this/inbox cannot be used: there is no such bucket" in done.output


@pytest.mark.slow
def test_what_is_gone_from_an_inbox_is_gone_here(bucket):
    bucket.at("reader")
    drop(f"{bucket.url}-inbox", DROPS[0], "cell")
    ingested(bucket)
    place = warehouse_path(f"{bucket.url}-inbox").with_name("inbox") / "files"
    assert (place / "cell" / "record.json").exists()
    store = ObjectStore(f"{bucket.url}-inbox")
    store.remove([one.name for one in store.entries(None)])
    CliRunner().invoke(cli, ["ingest", f"{bucket.url}-inbox", "--warehouse", bucket.url])
    assert not [path for path in place.rglob("*") if path.is_file()]
