"""CONTRIBUTING says where a metric, a report format and a page go: here they are added as it says, to a
copy of the tree, and found wherever a user looks for them."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser.seen import chromium, fresh, served, title

pytestmark = [pytest.mark.slow, pytest.mark.browser]
ROOT, HERE = Path(__file__).parents[2], Path(__file__).parent
#: What CONTRIBUTING says of the three, and what is done here.
SAID = (
    "one row of `METRICS` in `warehouse/catalogue.py`; then `python docs/make_definitions.py`",
    "one file in `ingest/formats/` and one fixture, in `OTHERS` of `tests/secrets/others.py`; a line in "
    "`docs/ingest.md`",
    "one file in `dashboard/views/`",
)
METRIC = """        Metric(
            "decode_time", "Decode time", "s", "lower", 2,
            "First token to last token, over completed requests.", distribution=True,
            request=PerRequest(lambda r: r.finished - r.first_token),
            changes=("shorter decode time", "longer decode time"),
        ),
"""


@dataclass(frozen=True)
class Copy:
    """A tree with the three additions, and a warehouse that it filled."""

    tree: Path
    warehouse: Path

    def says(self, *words: str) -> str:
        """What a Python of the copy prints."""
        done = subprocess.run(
            [sys.executable, *words], cwd=self.tree, env=self.environment(), check=False,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def environment(self) -> dict[str, str]:
        """The copy before everything that is installed."""
        own = {"PYTHONPATH": str(self.tree), "DRAFTBOARD_WAREHOUSE": str(self.warehouse)}
        return {**os.environ, **own}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    tree = tmp_path_factory.mktemp("copy")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.py", "*.sql", "*.j2", "*.toml",
         "docs", ".streamlit"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        if (
            not name.startswith(("tests/", "examples/", "docs/screenshots/"))
            and (ROOT / name).exists()
        ):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    made = Copy(tree, tree / "warehouse-of-the-test")
    _add(made)
    return made


def _add(made: Copy) -> None:
    catalogue = made.tree / "warehouse" / "catalogue.py"
    before, mark, after = catalogue.read_text().partition(
        '        Metric(\n            "chunk_gap"'
    )
    assert mark
    catalogue.write_text(before + METRIC + mark + after)
    made.says("docs/make_definitions.py")
    shutil.copyfile(HERE / "acme.py", made.tree / "ingest" / "formats" / "acme.py")
    shutil.copyfile(HERE / "weather.py", made.tree / "dashboard" / "views" / "weather.py")
    fixtures = made.tree / "fixture"
    fixtures.mkdir()
    for method, k, pace in (("none", None, 0.02), ("eagle3", 3, 0.01)):
        for launch in range(3):
            name = f"{method}-{launch}"
            (fixtures / f"{name}.json").write_text(json.dumps(_log(name, method, k, pace)))
    told = json.loads(made.says("draftboard.py", "ingest", str(fixtures), "--json"))
    assert (told["accepted"], told["rejected"]) == (6, [])


def _log(name: str, method: str, k: int | None, pace: float) -> object:
    """Twenty requests of 11 tokens each, so that decoding takes ten times ``pace``, more or less."""
    luck = random.Random(name)
    facts = {
        "model": "acme/model", "dataset": "towns", "concurrency": 4, "spec_method": method,
        "num_speculative_tokens": k, "launch": name, "gpu": "H200", "gpu_count": 1,
    }  # fmt: skip
    rows = []
    for number in range(20):
        start = 1.7e9 + number / 2
        last = start + 0.1 + 10 * pace * luck.uniform(0.95, 1.05)
        rows.append(
            {"start": start, "first_token": start + 0.1, "last_token": last, "end": last,
             "prompt_tokens": 50, "output_tokens": 11}
        )  # fmt: skip
    return {"acme": {"run": name, "facts": facts, "requests": rows}}


def test_contributing_says_what_is_done_here() -> None:
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [words for words in SAID if f"| {words} |" not in said] == []


def test_the_format_is_read_and_listed(copy: Copy) -> None:
    runs = json.loads(copy.says("draftboard.py", "runs", "--json"))
    assert {run["load_generator"] for run in runs} == {"acme"}
    (copy.tree / "odd.json").write_text('{"nothing": 1}')
    refused = json.loads(copy.says("-c", REFUSED))
    assert "an Acme log" in refused


REFUSED = """
import json, pathlib
from ingest.model import FileContent
from ingest.discovery import sniff
from warehouse.errors import InvalidInput
try:
    sniff(FileContent(pathlib.Path("odd.json"), memoryview(b'{"nothing": 1}'), str))
except InvalidInput as error:
    print(json.dumps(str(error)))
"""


def test_the_metric_is_compared_in_its_own_words(copy: Copy) -> None:
    shown = copy.says("draftboard.py", "compare", "--metric", "decode_time:p95")
    assert "Decode time, P95 (s)" in shown
    found = json.loads(copy.says("draftboard.py", "compare", "--metric", "decode_time", "--json"))
    (arm,) = found["settings"][0]["arms"]
    (line,) = [one for one in arm["levels"] if one["metric"] == "decode_time"]
    assert line["statistic"] == "p50"
    assert line["improvement"] == pytest.approx(0.5, abs=0.05)


def test_the_metric_bounds_a_service_level_request_by_request(copy: Copy) -> None:
    told = json.loads(copy.says("draftboard.py", "slo", "decode_time:p95<150ms", "--json"))
    shares = {arm["arm_label"]: arm["levels"][0]["good_share"] for arm in told["arms"]}
    assert shares == {"baseline": 0.0, "eagle3 K=3": 1.0}


def test_the_metric_stands_in_the_definitions(copy: Copy) -> None:
    made = (copy.tree / "docs" / "definitions.md").read_text(encoding="utf-8")
    assert "| `decode_time` | Decode time | s | lower |" in made


def test_the_metric_is_offered_by_the_pages(copy: Copy) -> None:
    offered = json.loads(copy.says(str(HERE / "tries.py"), "compare", "data"))
    assert len(offered) == 2
    for path, options in offered.items():
        assert any("Decode time" in option for option in options), path


@pytest.fixture(scope="module")
def address(copy: Copy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    with served(copy.warehouse, log, copy.tree) as found:
        yield found


def test_the_page_is_in_the_frame_and_takes_over_its_former_address(address: str) -> None:
    with chromium() as browser, fresh(browser) as page:
        page.goto(f"{address}/climate?town=Ulm&dataset=towns")

        assert title(page) == "It rains"
        expect(page.get_by_text("Ulm.")).to_be_visible()
        expect(page).to_have_url(f"{address}/weather?town=Ulm&dataset=towns")
        expect(page).to_have_title("Weather · towns · Draftboard")
        expect(page.get_by_role("link", name="Weather", exact=True)).to_be_visible()
