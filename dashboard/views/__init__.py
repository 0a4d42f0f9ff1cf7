"""The pages, in the order in which they stand in the frame; the first one opens by default.

A page is a module with ``TITLE``, ``URL_PATH`` and ``render(shelf, filters)``.
"""

from types import ModuleType

from dashboard.views import (
    claims,
    compare,
    cost,
    draft_tokens,
    explore,
    nights,
    runs,
    slo,
    trends,
    verdict,
    whatif,
)

VIEWS: tuple[ModuleType, ...] = (
    verdict,
    compare,
    draft_tokens,
    slo,
    cost,
    whatif,
    trends,
    nights,
    runs,
    claims,
    explore,
)
