"""How large the house is: statements of its folders, beside an earlier commit."""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result

ROOT = Path(__file__).parents[1]
_WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
#: The folders of the product: what a wheel takes along.
PACKAGES = tuple(
    name for name in _WHEEL["targets"]["wheel"]["only-include"] if (ROOT / name).is_dir()
)
#: The commit before the six pages, whose statements were to become a quarter fewer.
BEFORE = "71846cc"


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Statements now and then, where git knows the earlier commit."""
    now = sum(statements(path.read_text("utf-8")) for path in _here())
    try:
        then = sum(statements(text) for text in _at(BEFORE))
    except subprocess.CalledProcessError:
        yield Result("statements of the product", "-", f"{now:,}", None)
        return
    told = f"{now / then - 1:+.1%} ({now:,}; {then:,} at {BEFORE})"
    yield Result("statements of the product", "-25 %", told, now <= 0.75 * then)


def statements(text: str) -> int:
    """Statements of a module, docstrings left out."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
    return sum(
        not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes
    )


def _here() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (ROOT / package).rglob("*.py")


def _at(commit: str) -> Iterator[str]:
    for name in _git("ls-tree", "-r", "--name-only", commit).splitlines():
        if name.endswith(".py") and name.split("/")[0] in PACKAGES:
            yield _git("show", f"{commit}:{name}")


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
