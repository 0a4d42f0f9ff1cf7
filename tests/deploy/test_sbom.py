"""The list of parts that ``make sbom`` writes (CycloneDX)."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name as named

from tests.deploy.files import ROOT, text
from tests.deploy.pins import pinned


@pytest.mark.slow
def test_the_list_of_parts_has_a_version_and_a_licence_of_each_dependency(tmp_path: Path) -> None:
    out = tmp_path / "sbom.json"
    words = [str(Path(sys.executable).with_name("cyclonedx-py")), "environment"]
    words += ["--pyproject", str(ROOT / "pyproject.toml"), "-o", str(out), sys.executable]

    subprocess.run(words, check=True, capture_output=True)

    parts = {named(one["name"]): one for one in json.loads(out.read_text())["components"]}
    needed = tomllib.loads(text("pyproject.toml"))["project"]["dependencies"]
    known = pinned("requirements.txt")
    for name in (named(re.split(r"[^\w.-]", one)[0]) for one in needed):
        assert parts[name]["version"] == known[name].version
        assert parts[name]["licenses"], name
