"""What a reader's own reports say: the decision's words, tables and a drawing."""

from dataclasses import dataclass

import pandas as pd

from answers.compare.uploaded import FACTS, Told
from answers.decide.overview import Overview, overviews
from dashboard.answers import Drawing
from dashboard.answers import compare as page_of
from dashboard.answers.compare import Page
from dashboard.components import Shown, shown

#: The line that the charts show.
LINE = ("output_throughput", "mean")
_NAMES = {"gpu": "GPU", "tensor_parallel_size": "TP", "arm_label": "arm"}


@dataclass(frozen=True)
class Upload:
    """All that the page shows of uploaded reports; ``page`` is None where there is no cell.
    ``decided``: the decisions on what was uploaded."""

    cells: Shown
    flags: Shown
    page: Page | None
    drawings: tuple[Drawing, ...] = ()
    decided: tuple[Overview, ...] = ()


NOTHING = Upload(shown(pd.DataFrame()), shown(pd.DataFrame()), None)


def upload(told: Told) -> Upload:
    """What the reports say."""
    page = page_of.page(told.comparison, told.decisions)
    drawings = (
        page_of.improvement_drawings(told.comparison, page.titles, LINE) if page.titles else []
    )
    header = [_NAMES.get(name, name) for name in FACTS]
    return Upload(
        shown(pd.DataFrame(list(told.cells), columns=header)),
        shown(pd.DataFrame([vars(flag) for flag in told.flags])),
        page,
        tuple(drawings),
        overviews(told.decisions.decisions),
    )
