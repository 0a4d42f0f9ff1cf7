"""Request files get their names with the list that names them; what a kill in between left goes.

A request file is private until its generation is published. Before it gets its name, that name is
noted in a journal; whoever finds the journal later removes those of them that no list holds.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from warehouse.errors import WarehouseDamaged
from warehouse.store_files import PRIVATE, REQUESTS, sync
from warehouse.store_read import listed_files

_JOURNAL = "placing.json"


@contextmanager
def placed(root: Path, files: Mapping[Path, str]) -> Iterator[None]:
    """Give private request files their names; the caller publishes the list that holds them.

    Only under the writer's lock. Where that fails, ``take_back`` removes them.
    """
    if not files:
        yield
        return
    folder = root / REQUESTS
    private = root / f"{PRIVATE}{_JOURNAL}"
    private.write_text(json.dumps(sorted(files.values())), encoding="utf-8")
    private.replace(root / _JOURNAL)
    for path, name in files.items():
        # After a lost race it has its name.
        if path.exists() or not (folder / name).exists():
            path.replace(folder / name)
    sync(folder)
    yield
    (root / _JOURNAL).unlink()


def take_back(root: Path) -> None:
    """Remove the request files of a publication that did not come to its end.

    Only under the writer's lock. Where it cannot be said what is listed, nothing is removed.
    """
    journal = root / _JOURNAL
    try:
        names = json.loads(journal.read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        names = []
    with suppress(WarehouseDamaged):
        for name in set(names) - listed_files(root):
            (root / REQUESTS / Path(name).name).unlink(missing_ok=True)
        journal.unlink()
