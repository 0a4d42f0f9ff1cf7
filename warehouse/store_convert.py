"""A warehouse of schema version 3 becomes one of ours, without its raw files."""

from collections.abc import Callable
from pathlib import Path

from warehouse.store_files import full_disk_explained, remove_private
from warehouse.store_list import Generation, is_old, no_current, number_of
from warehouse.store_old import CONVERTIBLE, old_tables, require_our_schema, schema_version
from warehouse.store_placing import take_back
from warehouse.store_publish import Batch, publish_generation
from warehouse.store_rows import BATCHES
from warehouse.store_turnover import start_writing

#: Tables that are read, and the generation that is written.
STEPS = len(BATCHES) + 2


def convert(root: Path, advance: Callable[[int], None] = lambda done: None) -> Generation | None:
    """Publish what the warehouse holds as the next generation; None where it is ours already.

    Only under the writer's lock. The old database stays until ``gc``; killed before the end, the
    warehouse is what it was. ``advance`` gets 1 for each of ``STEPS``. Raises WarehouseMissing, and WarehouseOutdated for versions below 3.
    """
    remove_private(root)
    name = start_writing(root, rebuild=False)
    take_back(root)
    if name is None:
        raise no_current(root)
    if not is_old(name):
        return None
    if schema_version(root, name) != CONVERTIBLE:
        require_our_schema(root, name)
    tables, rejections = old_tables(root / name, advance)
    with full_disk_explained(root):
        batch = Batch(tables, rejections=rejections)
        made = publish_generation(root, Generation(0), (number_of(name) or 0) + 1, batch)
    advance(1)
    return made
