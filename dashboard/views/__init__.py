"""The pages. One module or folder here is one page; being here puts it into the frame.

A page has ``TITLE``, ``URL_PATH``, ``ORDER`` (its place among the others; the first one opens by
default), ``render(shelf, filters)`` and, where it took over the place of older ones, ``FORMER``:
their addresses, which still lead to it.
"""

import importlib
import pkgutil
from types import ModuleType


def _pages() -> tuple[ModuleType, ...]:
    names = (found.name for found in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted((one for one in modules if hasattr(one, "ORDER")), key=_order))


def _order(page: ModuleType) -> int:
    order: int = page.ORDER
    return order


VIEWS: tuple[ModuleType, ...] = _pages()
