"""One adapter per report format. A module here that can ``sniff`` is one, by being here.

It provides what ``ingest.model.Format`` says. No two formats recognise the same bytes: a fixture of each in
``tests/fixtures`` shows it.
"""

import importlib
import pkgutil
from typing import cast

from ingest.model import Format

FORMATS: tuple[Format, ...] = tuple(
    cast(Format, module)
    for module in (
        importlib.import_module(f"{__name__}.{found.name}")
        for found in pkgutil.iter_modules(__path__)
    )
    if hasattr(module, "sniff")
)
