"""The pages. One module or folder here is one page; being here puts it into the frame.

A page has ``TITLE``, ``URL_PATH``, ``ORDER`` (its place among the others; the first one opens by
default), ``render(shelf, filters)`` and, where it took over the place of older ones, ``FORMER``:
their addresses, which still lead to it.
"""

import importlib
import pkgutil
from operator import attrgetter
from types import ModuleType

_MODULES = (
    importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
)
VIEWS: tuple[ModuleType, ...] = tuple(
    sorted((page for page in _MODULES if hasattr(page, "ORDER")), key=attrgetter("ORDER"))
)
