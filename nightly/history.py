"""Writes the nights' history into the warehouse folder; ``warehouse/nights.py`` reads it."""

from datetime import UTC
from pathlib import Path

from nightly.place import write_whole
from nightly.words import markdown
from warehouse.nights import STAMP, NightSummary, folder
from warehouse.secrets.values import scrub
from warehouse.store_aside import changed_aside


def write(root: Path, night: NightSummary) -> Path:
    """Put a summary in place, as JSON and as Markdown; a night that goes on replaces its own."""
    night = NightSummary.model_validate(scrub(night.model_dump()))
    name = night.started.astimezone(UTC).strftime(STAMP)
    path = folder(root) / night.study / f"{name}.json"
    write_whole(path.with_suffix(".md"), markdown(night))
    write_whole(path, night.model_dump_json(indent=1) + "\n")
    changed_aside(root, [path.with_suffix(".md"), path])
    return path
