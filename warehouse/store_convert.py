"""A warehouse of schema version 3 becomes one of ours, without its raw files."""

from pathlib import Path

from warehouse.store_files import full_disk_explained, remove_private
from warehouse.store_list import Generation, is_old, no_current, number_of, start_writing
from warehouse.store_old import CONVERTIBLE, old_tables, require_our_schema, schema_version
from warehouse.store_publish import Batch, publish_generation


def convert(root: Path) -> Generation | None:
    """Publish what the warehouse holds as the next generation; None where it is ours already.

    Only under the writer's lock. The old database stays until ``gc``; killed before the end, the
    warehouse is what it was. Raises WarehouseMissing, and WarehouseOutdated for versions below 3.
    """
    remove_private(root)
    name = start_writing(root, rebuild=False)
    if name is None:
        raise no_current(root)
    if not is_old(name):
        return None
    if schema_version(root, name) != CONVERTIBLE:
        require_our_schema(root, name)
    tables, rejections = old_tables(root / name)
    with full_disk_explained(root):
        batch = Batch(tables, rejections=rejections)
        return publish_generation(root, Generation(0), (number_of(name) or 0) + 1, batch)
