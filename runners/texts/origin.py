"""Where the prompts of a dataset come from, so that the same ones can be had again."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from runners.models.model_files import commit_here
from runners.planning.datasets import Dataset
from runners.planning.study import Study


def origin(study: Study, dataset: Dataset) -> dict[str, Any]:
    """Return the hub's commit, the sha256 of a file, or the generator's settings; unknown is left
    out."""
    if dataset.hub is not None:
        hub = dataset.hub
        commit = commit_here("datasets", hub.id, hub.revision, study.environment)
        said: dict[str, Any] = {"hub": hub.id, "revision": hub.revision, "commit": commit}
    elif dataset.file is not None:
        said = {"file": dataset.file, "sha256": _sha256(study.file(dataset.file))}
    else:
        assert dataset.generator is not None  # the study gives exactly one of the three
        said = {"generator": dataset.generator.model_dump()}
    return {name: value for name, value in said.items() if value is not None}


def _sha256(path: Path) -> str | None:
    try:
        status = path.stat()
        return _hashed(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _hashed(path: Path, _written: int, _size: int) -> str:
    """Return the hash of a file as it was written then. It is remembered, since every cell of a
    dataset asks for it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
