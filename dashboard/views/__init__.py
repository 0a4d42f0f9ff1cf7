"""The pages. One module or folder here is one page; being here puts it into the frame.

A page has ``TITLE``, ``URL_PATH``, ``ORDER`` (its place among the others; the first one opens by
default), ``render(shelf, filters)`` and, where it took over the place of older ones, ``FORMER``:
their addresses, which still lead to it.
"""

import importlib
import pkgutil
from types import ModuleType


def _order(page: ModuleType) -> int:
    order: int = page.ORDER
    return order


_MODULES = (
    importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
)
VIEWS: tuple[ModuleType, ...] = tuple(
    sorted((module for module in _MODULES if hasattr(module, "ORDER")), key=_order)
)
