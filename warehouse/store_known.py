"""What a warehouse of any schema was read from: enough to read it all again."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from warehouse.errors import WarehouseDamaged
from warehouse.store_cache import name_of
from warehouse.store_list import current_name, is_old, load, no_current
from warehouse.store_old import attach_old
from warehouse.store_tables import attach_parts


@dataclass(frozen=True)
class Known:
    """One source: where it lay, and what ``--set`` said of it."""

    source_id: str
    path: Path
    settings: dict[str, Any]


def known_sources(root: Path) -> tuple[Known, ...]:
    """Return the sources of the published generation in the order in which they came.

    Raises WarehouseMissing where there is none, WarehouseDamaged where it does not list them.
    """
    name = current_name(root)
    if name is None:
        raise no_current(root)
    try:
        with (
            attach_old(root / name) if is_old(name) else attach_parts(root, load(root / name))
        ) as connection:
            rows = connection.execute(
                "select source_id, path, settings from store.sources order by ingested_at, path"
            ).fetchall()
    except (duckdb.Error, FileNotFoundError) as error:
        raise WarehouseDamaged(
            f"The warehouse {name_of(root)} does not say what it was read from "
            f"({str(error).splitlines()[0]}); start anew with: draftboard ingest PATHS --rebuild "
            f"--warehouse {name_of(root)}"
        ) from error
    return tuple(Known(one, Path(path), json.loads(settings)) for one, path, settings in rows)
