"""The import picture of CONTRIBUTING.md, asserted: who may import whom, and where the heavy libraries live."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("analysis", "commands", "dashboard", "ingest", "nightly", "runners", "warehouse")
MAY_IMPORT = {
    "runners": {"warehouse"},
    "ingest": {"analysis", "warehouse"},
    "analysis": {"warehouse"},
    "warehouse": set(),
    "dashboard": {"analysis", "warehouse"},
    "commands": {"analysis", "warehouse"},
    "nightly": {"analysis", "warehouse"},
}
WORDS = {f"warehouse.{name}" for name in ("catalogue", "rows", "contract", "errors", "filters")}
#: library -> the only files that may import it
HOMES = {
    "streamlit": r"dashboard/.*",
    "altair": r"dashboard/charts/.*",
    "duckdb": r"warehouse/(store.*|maintenance|compaction|export)\.py",
    "guidellm": r"nowhere",
    "torch": r"runners/lab/.*",
    "vllm": r"nowhere",
}
READS_OR_WRITES = {"io", "os", "pathlib", "requests", "shutil", "socket", "sqlite3", "subprocess"}
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
# Written in two parts, so that this file does not name what it looks for.
FOREIGN = ("/wor" + "k/", "../sha" + "red", "artifact" + "ory", "pypi.o" + "rg/simple")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= submodules if node.module in PACKAGES else {node.module}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_its_place_allows(path: Path) -> None:
    place, own = str(path.relative_to(ROOT)), path.relative_to(ROOT).parts[0]
    roots = {name.partition(".")[0] for name in imported(path)}
    # A package's commands print the tables that every command prints.
    terminal = {"commands"} if path.name.endswith("cli.py") else set()
    assert roots & set(PACKAGES) - {own} <= MAY_IMPORT[own] | terminal
    for library, home in HOMES.items():
        assert library not in roots or re.fullmatch(home, place), f"{library} in {place}"


@pytest.mark.parametrize("path", sorted((ROOT / "analysis").rglob("*.py")), ids=lambda p: p.name)
def test_analysis_is_pure_and_takes_only_words_from_the_warehouse(path: Path) -> None:
    names = imported(path)
    assert not READS_OR_WRITES & {name.partition(".")[0] for name in names}
    taken = {".".join(n.split(".")[:2]) for n in names if n.startswith("warehouse.")}
    assert taken <= WORDS
    calls = (node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.Call))  # fmt: skip
    assert not [f.id for f in calls if isinstance(f, ast.Name) and f.id in {"open", "print"}]


def test_no_file_names_a_place_that_exists_on_one_machine_only() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    texts = {
        name: (ROOT / name).read_bytes().decode("utf-8", "replace")
        for name in listed
        if name and (ROOT / name).is_file() and not name.endswith((".zst", ".gz", ".png"))
    }
    assert not [(name, f) for name, text in texts.items() for f in FOREIGN if f in text]


def test_the_list_of_commands_costs_no_heavy_import() -> None:
    roots = {name.partition(".")[0] for name in imported(ROOT / "draftboard.py")}
    assert not roots & {"duckdb", "pandas", "pyarrow", "streamlit", *PACKAGES} - {"warehouse"}
