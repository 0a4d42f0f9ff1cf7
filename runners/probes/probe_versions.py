"""Versions of installed distributions, without importing any of them.

In: {"distributions": [name, …]}. Out: {"python": …, "versions": {name: version or null},
"torch_cuda": what torch was built for, "torch_hip": …}.
"""

import importlib.metadata
import importlib.util
import json
import platform
import runpy
import sys
from pathlib import Path
from typing import Any


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch() -> dict[str, Any]:
    """Return what torch's own version.py says; importing torch would take seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    file = Path(spec.origin).with_name("version.py")
    return runpy.run_path(str(file)) if file.is_file() else {}


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    torch = _torch()
    answer = {
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in asked["distributions"]},
        "torch_cuda": torch.get("cuda"),
        "torch_hip": torch.get("hip"),
    }
    sys.stdout.write(json.dumps(answer) + "\n")


main()
