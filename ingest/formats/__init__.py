"""One adapter per report format. A module here that can ``sniff`` is one, by being here.

It provides what ``ingest.model.Format`` says. No two formats recognise the same bytes: a fixture of each in
``tests/fixtures`` shows it.
"""

import importlib
import pkgutil
from typing import cast

from ingest.model import Format


def _found() -> tuple[Format, ...]:
    names = (one.name for one in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(cast(Format, one) for one in modules if hasattr(one, "sniff"))


FORMATS: tuple[Format, ...] = _found()
