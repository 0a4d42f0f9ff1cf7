"""Two processes with homes of their own share only a bucket and say the same decision."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def draftboard(home, *arguments):
    """Run a command as somebody whose home is empty, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "draftboard", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={k: v for k, v in os.environ.items() if k != "DRAFTBOARD_CACHE"} | {"HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_writer_and_a_reader_share_only_a_bucket_and_decide_the_same(bucket, tmp_path):
    writer, reader = tmp_path / "writer", tmp_path / "reader"
    for home in (writer, reader):
        home.mkdir()
    results = ROOT / "tests" / "fixtures" / "lab-first"
    draftboard(writer, "ingest", results, "--warehouse", bucket.url)
    draftboard(writer, "ingest", results, "--warehouse", tmp_path / "folder")
    shutil.rmtree(writer)
    shown = json.loads(draftboard(reader, "verdict", "--json", "--warehouse", bucket.url))
    alone = json.loads(draftboard(reader, "verdict", "--json", "--warehouse", tmp_path / "folder"))
    assert shown == alone
    assert "a secret of the bucket" not in json.dumps(shown)
