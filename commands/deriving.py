"""What a command does when it has changed what comparisons stand on."""

from pathlib import Path

#: With fewer cells computing the facts anew costs less than importing what derives them.
LEAST_CELLS = 1000


def derive_facts(root: Path) -> None:
    """Derive the facts of the studies that changed, where the warehouse is large."""
    from warehouse.errors import DraftboardError
    from warehouse.store_current import cells_held

    if cells_held(root) < LEAST_CELLS:
        return
    from answers.derive import derive
    from commands.output import working

    try:
        with working("deriving what pages show"):
            derive(root)
    except (DraftboardError, OSError):
        # Nothing is lost: facts that are not kept are computed by whoever asks for them.
        return


def derive_new_facts(root: Path) -> None:
    """Do the same after an ingest, once the studies that have grown since the last time are large."""
    from answers.facts_code import code_hash
    from warehouse.beside import derived_upto
    from warehouse.errors import DraftboardError
    from warehouse.queries import cells_of_grown_studies
    from warehouse.store import Reader
    from warehouse.store_current import cells_held

    if cells_held(root) < LEAST_CELLS:
        return
    try:
        with Reader(root) as reader:
            grown = cells_of_grown_studies(reader, derived_upto(root, code_hash()))
    except (DraftboardError, OSError):
        return
    if grown >= LEAST_CELLS:
        derive_facts(root)
