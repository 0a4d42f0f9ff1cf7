"""The import picture of CONTRIBUTING.md, asserted: who may import whom, and where the heavy libraries live."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.house import PACKAGES

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "runners": {"warehouse"},
    "ingest": {"analysis", "warehouse"},
    "analysis": {"warehouse"},
    "warehouse": set(),
    "answers": {"analysis", "warehouse"},
    "dashboard": {"analysis", "answers", "warehouse"},
    # These two compose.
    "commands": set(PACKAGES),
    "nightly": set(PACKAGES),
}
#: From the machine below to what a user starts: an import goes down this list, never up.
FLOORS = (
    "surroundings", "planning", "texts", "serving", "watching", "measuring", "executors", "checks",
)  # fmt: skip
WORDS = {
    f"warehouse.{name}"
    for name in ("catalogue", "rows", "contract", "defects", "errors", "filters", "loads")
}
#: library -> the only files that may import it
HOMES = {
    "streamlit": r"dashboard/.*",
    "altair": r"dashboard/charts/.*",
    "duckdb": r"warehouse/(store|storage/.*)\.py",
    "guidellm": r"nowhere",
    "torch": r"runners/lab/.*",
    "vllm": r"runners/lab/set_acceptance\.py",  # A plugin: vLLM imports it.
}
FACES = ("commands", "dashboard", "nightly")
READS_OR_WRITES = {"io", "os", "pathlib", "requests", "shutil", "socket", "sqlite3", "subprocess"}
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LEFTOVER = re.compile(r"\.(orig|rej|bak|sw[a-p])$|~$|\.(BACKUP|BASE|LOCAL|REMOTE)\.")
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
    assert roots & set(PACKAGES) - {own} <= MAY_IMPORT[own]
    for library, home in HOMES.items():
        assert library not in roots or re.fullmatch(home, place), f"{library} in {place}"


@pytest.mark.parametrize("floor", FLOORS)
def test_no_import_of_the_runners_goes_up(floor: str) -> None:
    above = {f"runners.{name}" for name in FLOORS[FLOORS.index(floor) + 1 :]}
    for path in (ROOT / "runners" / floor).rglob("*.py"):
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        names = {node.module or "" for node in tree if isinstance(node, ast.ImportFrom)}
        assert not {name for name in names if ".".join(name.split(".")[:2]) in above}, path


@pytest.mark.parametrize("path", sorted((ROOT / "analysis").rglob("*.py")), ids=lambda p: p.name)
def test_analysis_is_pure_and_takes_only_words_from_the_warehouse(path: Path) -> None:
    names = imported(path)
    assert not READS_OR_WRITES & {name.partition(".")[0] for name in names}
    taken = {".".join(n.split(".")[:2]) for n in names if n.startswith("warehouse.")}
    assert taken <= WORDS
    calls = (node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.Call))  # fmt: skip
    assert not [f.id for f in calls if isinstance(f, ast.Name) and f.id in {"open", "print"}]


def test_only_where_launches_run_elsewhere_the_program_starts_itself() -> None:
    starts = re.compile(r"""["']-m["'],\s*["']draftboard["']""")
    found = [path for path in MODULES if starts.search(path.read_text(encoding="utf-8"))]
    assert {path.relative_to(ROOT).parts[0] for path in found} <= {"runners"}


def listed_files(*options: str) -> list[str]:
    """What git lists of this repository, below its root."""
    return subprocess.run(
        ["git", "ls-files", *options, "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip


def test_no_leftover_of_an_editor_or_a_merge_is_kept() -> None:
    assert not [name for name in listed_files() if LEFTOVER.search(name)]


def test_no_file_names_a_place_that_exists_on_one_machine_only() -> None:
    listed = listed_files("--cached", "--others", "--exclude-standard")
    texts = {
        name: (ROOT / name).read_bytes().decode("utf-8", "replace")
        for name in listed
        if name and (ROOT / name).is_file() and not name.endswith((".zst", ".gz", ".png"))
    }
    assert not [(name, f) for name, text in texts.items() for f in FOREIGN if f in text]


def test_the_list_of_commands_costs_no_heavy_import() -> None:
    code = "import json, sys, draftboard; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    roots = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not roots & {"duckdb", "pandas", "pyarrow", "streamlit", *PACKAGES} - {"warehouse"}


def crossing() -> set[tuple[str, str]]:
    """Module and name of what the faces take from the answers."""
    faces = [path for path in MODULES if path.relative_to(ROOT).parts[0] in FACES]
    nodes = (node for path in faces for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    return {
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("answers")
        for alias in node.names
        if node.module
    }


def test_only_typed_values_cross_the_answers() -> None:
    taken = crossing()
    assert len(taken) > 20
    for module, name in sorted(taken):
        path = ROOT / f"{module.replace('.', '/')}.py"
        if not path.is_file():
            path, name = ROOT / module.replace(".", "/") / f"{name}.py", ""
        body = ast.parse(path.read_text("utf-8")).body if path.is_file() else []
        for made in (node for node in body if isinstance(node, ast.FunctionDef)):
            # A dict stands where JSON is written, and nowhere else.
            if (
                made.name.startswith("_")
                or made.name.endswith("json")
                or name not in ("", made.name)
            ):
                continue
            signature = (
                f"{ast.unparse(made.args)} -> {ast.unparse(made.returns or ast.Constant(None))}"
            )
            untyped = re.search(
                r"DataFrame|\bSeries\[Any|pa\.Table|\bdict\b|Mapping|\bAny\b", signature
            )
            assert not untyped, f"{module}.{made.name}: {signature}"
