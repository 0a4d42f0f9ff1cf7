"""What a verdict is about: one model on one hardware with one engine, in one kind of evidence."""

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.frames import records
from dashboard.panels import badge
from warehouse.filters import UNKNOWN, Filters

_FIELDS = ("model", "gpu", "engine", "engine_version", "evidence")
#: Measured before simulated; among measured ones a GPU first.
_RANKS = {"gpu": 0, "cpu": 1}
_LEAST = 2


@dataclass(frozen=True)
class Subject:
    """Values as filters hold them: ``unknown`` for what nobody stated. ``note``: a badge."""

    model: str
    gpu: str
    engine: str
    engine_version: str
    evidence: str

    @property
    def note(self) -> str:
        """What a reader must know about the origin of its numbers; empty for a GPU run."""
        return badge(self.evidence)

    @property
    def name(self) -> str:
        """For a choice."""
        note = f"  [{self.note}]" if self.note else ""
        return f"{self.model} on {self.gpu}, {self.engine} {self.engine_version}{note}"

    @property
    def kept(self) -> dict[str, str]:
        """The filters that keep every page to it -> their value."""
        return {"model": self.model, "gpu": self.gpu, "engine_version": self.engine_version}

    def filters(self, chosen: Filters) -> Filters:
        """The chosen filters, kept to this subject; arms keep the baseline beside them."""
        arm = tuple({*chosen.arm, "baseline"}) if chosen.arm else ()
        kept: dict[str, Any] = {name: (value,) for name, value in self.kept.items()}
        return replace(chosen, arm=arm, **kept)


def subjects(cells: pd.DataFrame) -> dict[str, Subject]:
    """Name -> subject: those with a baseline and an arm first, then what was measured, by size.

    ``cells`` as the query of that name returns them.
    """
    words = _words(cells)
    speculates = (cells["spec_method"] != "none").to_numpy()
    counts = words.assign(speculates=speculates, plain=~speculates).groupby(list(_FIELDS)).agg(
        cells=("plain", "size"), plain=("plain", "any"), speculates=("speculates", "any")
    )  # fmt: skip
    told = [
        (Subject(**{field: row[field] for field in _FIELDS}), row)
        for row in records(counts.reset_index())
    ]
    order = sorted(told, key=lambda one: _order(*one))
    return {subject.name: subject for subject, _ in order}


def _order(subject: Subject, row: dict[str, Any]) -> tuple[bool, int, int, str]:
    whole = row["plain"] and row["speculates"]
    return not whole, _RANKS.get(subject.evidence, _LEAST), -row["cells"], subject.name


def of_subject(cells: pd.DataFrame, subject: Subject) -> pd.DataFrame:
    """The cells of one subject."""
    words = _words(cells)
    wanted = [words[field] == getattr(subject, field) for field in _FIELDS]
    chosen: pd.DataFrame = cells[pd.concat(wanted, axis=1).all(axis=1)]
    return chosen


def _words(cells: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            field: cells[field].astype("str").where(cells[field].notna(), UNKNOWN)
            for field in _FIELDS
        }
    )
