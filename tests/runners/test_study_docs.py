"""docs/studies.md names every key that a study may have."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from runners.planning import study_file as study

PARTS = [
    part
    for part in vars(study).values()
    if isinstance(part, type) and issubclass(part, study.StudyPart)
]
TEXT = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_key_of_a_part_is_explained(part: type[BaseModel]) -> None:
    if part is study.Variant:
        return  # Derived, never written.
    missing = [name for name in part.model_fields if not re.search(rf"\b{name}\b", TEXT)]
    assert not missing
