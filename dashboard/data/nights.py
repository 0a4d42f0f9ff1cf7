"""What the Last nights page reads: the history beside the generations, cached by its files."""

from pathlib import Path

from dashboard.shelf import Shelf, cached
from warehouse import nights
from warehouse.nights import History


def history(shelf: Shelf) -> History:
    """The nights, newest first; a night that ends does not make a new generation."""
    return _history(shelf.root, nights.version(Path(shelf.root)))


@cached(4)
def _history(root: str, version: str) -> History:
    return nights.history(Path(root))
