"""Every test is run by exactly one of ``make test`` and ``make test-long``; each marker means something."""

import re
import tomllib
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARKERS = tuple(
    marker.partition(":")[0]
    for marker in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"][
        "ini_options"
    ]["markers"]
)
#: What a test may carry: every set of markers.
CARRIED = [
    dict(zip(MARKERS, on, strict=True)) for on in product((True, False), repeat=len(MARKERS))
]


def recipe(target: str) -> str:
    """What make runs for a target, with what `make check` runs where it needs that first."""
    found = re.search(
        rf"^{target}:(.*)\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.M
    )
    assert found is not None, f"the Makefile has no target {target}"
    return (recipe("quick") if "check" in found[1].split() else "") + found[2]


def selected(target: str, carried: dict[str, bool]) -> int:
    """How often a target runs a test with these markers; pytest reads the words as Python does."""
    said = re.findall(r"pytest\b.* -m (?:\"([^\"]+)\"|(\w+))", recipe(target))
    assert said, f"{target} runs no test"
    return sum(bool(eval(one or other, {}, carried)) for one, other in said)  # noqa: S307 - our own


@pytest.mark.parametrize("carried", CARRIED, ids=lambda c: "+".join(n for n in c if c[n]) or "none")
def test_whatever_a_test_carries_it_is_run_once(carried: dict[str, bool]) -> None:
    assert selected("test", carried) + selected("test-long", carried) == 1
    assert selected("quick", carried) == (not any(carried.values()))
    assert selected("quick", carried) <= selected("test", carried)


def test_those_alone_lie_where_make_test_looks_for_them() -> None:
    """Collecting all others takes a third of a minute for nothing."""
    (places,) = re.findall(r"pytest ((?:tests/\S+ )+)-m \"alone", recipe("test"))
    looked = tuple(ROOT / place for place in places.split())
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text("utf-8")
        alone = re.findall(r"^@pytest\.mark\.alone|^pytestmark.*mark\.alone", text, re.M)
        if alone and not any(path.is_relative_to(place) for place in looked):
            assert text.count("@pytest.mark.long\n@pytest.mark.alone") == len(alone), path


def test_make_check_lints_and_runs_the_quick_tests() -> None:
    assert recipe("check").split()[-2:] == ["lint", "quick"]


@pytest.mark.parametrize("marker", MARKERS)
def test_each_marker_is_carried_by_tests_and_explained(marker: str) -> None:
    files = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert any(f"pytest.mark.{marker}" in text for text in files)
    assert f"`{marker}`" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_what_runs_in_fresh_clones_is_make_test() -> None:
    (last,) = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1:]
    assert re.fullmatch(r"make( -j \d+)? test", last)
