"""Results that a command takes into a warehouse itself, and what is derived when results change."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import DraftboardError

if TYPE_CHECKING:
    from ingest.pipeline import IngestOutcome

#: With fewer cells computing the facts anew costs less than importing what derives them.
LEAST_CELLS = 1000


def take_in(
    paths: Sequence[Path], root: Path, *, keep_text: bool = False, rebuild: bool = False
) -> "IngestOutcome":
    """Take what lies in ``paths`` into the warehouse at ``root``, as `draftboard ingest` does without
    other options. ``rebuild``: what the warehouse held before counts no more."""
    from ingest.discovery import find_units
    from ingest.model import IngestOptions
    from ingest.pipeline import ingest_units
    from warehouse.store import open_writer

    with open_writer(
        root, on_wait=lambda told: click.echo(told, err=True), rebuild=rebuild
    ) as store:
        outcome = ingest_units(find_units(paths), store, IngestOptions(keep_text=keep_text))
    derive_new_facts(root)
    return outcome


def derive_facts(root: Path) -> None:
    """Derive the facts of the studies that changed, where the warehouse is large."""
    from warehouse.storage.current import cells_held

    if cells_held(root) < LEAST_CELLS:
        return
    from answers.ground import derive
    from commands.output import working

    try:
        with working("deriving what pages show"):
            derive(root)
    except (DraftboardError, OSError):
        # Nothing is lost: facts that are not kept are computed by whoever asks for them.
        return


def derive_new_facts(root: Path) -> None:
    """Do the same after an ingest, once the studies that have grown since the last time are large."""
    from warehouse.storage.current import cells_held

    if cells_held(root) < LEAST_CELLS:
        return
    from answers import code_hash
    from warehouse.beside import derived_upto
    from warehouse.queries import cells_of_grown_studies
    from warehouse.store import Reader

    try:
        with Reader(root) as reader:
            grown = cells_of_grown_studies(reader, derived_upto(root, code_hash()))
    except (DraftboardError, OSError):
        return
    if grown >= LEAST_CELLS:
        derive_facts(root)
