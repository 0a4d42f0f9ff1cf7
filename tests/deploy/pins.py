"""The files of requirements: every dependency with its version and its hashes."""

from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from tests.deploy.files import text


@dataclass(frozen=True)
class Pin:
    """The version of a dependency, and the hashes of its files: ``sha256:…``."""

    version: str
    hashes: frozenset[str]


def pinned(name: str) -> dict[NormalizedName, Pin]:
    """The dependencies of a file of requirements."""
    found = {}
    for line in text(name).replace("\\\n", " ").splitlines():
        asked, *hashes = line.split("--hash=")
        said = Requirement(asked.strip())
        (only,) = said.specifier
        found[canonicalize_name(said.name)] = Pin(only.version, frozenset(map(str.strip, hashes)))
    return found
