"""What is installed is what was looked at: every dependency by its version and the hashes of its files."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.files import text
from tests.deploy.pins import pinned

SETTINGS = tomllib.loads(text("pyproject.toml"))
PROJECT = SETTINGS["project"]
ASKED = {
    "requirements.txt": PROJECT["dependencies"],
    "requirements-dev.txt": PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"],
    "requirements-build.txt": SETTINGS["build-system"]["requires"],
}
INSTALLERS = ("Makefile", "Dockerfile", "deploy/github/action.yml", "deploy/github/nightly.yaml")
#: A folder instead of a wheel: pip builds it, by default with what it fetches for that.
_OF_THE_PRODUCT = r"pip.* (wheel|--no-deps) (?!.*whl)"


@pytest.mark.parametrize("name", [*ASKED, "requirements-bucket.txt", "requirements-docs.txt"])
def test_every_dependency_has_the_hashes_of_its_files(name: str) -> None:
    found = pinned(name)
    assert found
    assert [one for one, pin in found.items() if not pin.hashes] == []
    assert "://" not in text(name)


@pytest.mark.parametrize("name", ASKED)
def test_what_is_pinned_is_what_the_project_asks_for(name: str) -> None:
    found = pinned(name)
    for asked in map(Requirement, ASKED[name]):
        assert asked.specifier.contains(found[canonicalize_name(asked.name)].version), asked


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_a_server_and_its_developers_have_the_same_files(name: str) -> None:
    developers = pinned("requirements-dev.txt")
    found = pinned(name)
    assert {one: developers[one] for one in found} == found


@pytest.mark.parametrize("name", INSTALLERS)
def test_nothing_is_installed_but_by_its_hash(name: str) -> None:
    lines = [line for line in text(name).splitlines() if " install " in line or "pip --" in line]
    ours = [line for line in lines if "requirements" in line]
    assert ours
    assert all("--require-hashes" in line for line in ours)


@pytest.mark.parametrize("name", INSTALLERS)
def test_the_product_is_built_by_what_is_there(name: str) -> None:
    ours = [line for line in text(name).splitlines() if re.search(_OF_THE_PRODUCT, line)]
    assert ours
    assert all("--no-build-isolation" in line for line in ours)
    assert "requirements-build.txt" in text(name) or "requirements-dev.txt" in text(name)


@pytest.mark.slow
def test_a_file_of_another_hash_is_refused(tmp_path: Path) -> None:
    pin = pinned("requirements-dev.txt")["iniconfig"]
    for hashes, refused in ((pin.hashes, False), ({"sha256:" + "0" * 64}, True)):
        words = " ".join(f"--hash={one}" for one in hashes)
        asked = tmp_path / "requirements.txt"
        asked.write_text(f"iniconfig=={pin.version} {words}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
        done = subprocess.run(
            [*pip, "--require-hashes", "-r", str(asked)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert bool(done.returncode) is refused, done.stderr
        assert ("DO NOT MATCH THE HASHES" in done.stderr) is refused
