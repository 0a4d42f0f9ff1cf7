"""How large the house is: statements, lines, modules, names that mean two things, the largest folder."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result

ROOT = Path(__file__).parents[1]
_WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
#: The folders of the product: what a wheel takes along.
PACKAGES = tuple(
    name for name in _WHEEL["targets"]["wheel"]["only-include"] if (ROOT / name).is_dir()
)
SMALL = 60


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Each size beside the bar that it has to keep under."""
    modules = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    texts = [path.read_text("utf-8") for path in modules]
    trees = [ast.parse(text) for text in texts]
    lines = [text.count("\n") for text in texts]
    classes = Counter(node.name for tree in trees for node in tree.body
                      if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))  # fmt: skip
    folders = Counter(
        path.parent for package in PACKAGES for path in (ROOT / package).rglob("*")
        if "__pycache__" not in path.parts
    )  # fmt: skip
    for what, found, most in (
        ("statements of the product", sum(map(statements, trees)), 35_000),
        ("lines of the product", sum(lines), 60_000),
        ("modules", len(modules), 380),
        (f"modules under {SMALL} lines", sum(n < SMALL for n in lines), 60),
        ("public class names defined twice", sum(n > 1 for n in classes.values()), 10),
        ("lines with dict[str, Any]", sum("dict[str, Any]" in line for text in texts
                                          for line in text.splitlines()), 200),
        ("entries of the largest folder", max(folders.values()), 18),
    ):  # fmt: skip
        yield Result(what, f"<= {most:,}", f"{found:,}", found <= most)


def statements(tree: ast.AST) -> int:
    """Return the number of statements of a module, docstrings among them."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
