"""What the What-if page reads, cached by warehouse generation.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from dataclasses import dataclass, replace

import pandas as pd

from analysis.drafts.acceptance_tables import position_counts
from analysis.matching.load_points import METRICS_READ, load_points, of_family
from analysis.prediction.forecast import Forecast, answered
from analysis.prediction.leave_one_out import leave_one_out
from analysis.prediction.whatif import Model, Prediction, build
from dashboard import data
from dashboard.answers import Drawing, whatif_drawings
from dashboard.answers import textbook as answers_textbook
from dashboard.answers import whatif as words
from dashboard.answers.textbook import Textbook
from dashboard.answers.whatif import Given, Reach
from dashboard.answers.whatif_drawings import Sheet
from dashboard.components import Shown
from dashboard.data import families as data_families
from dashboard.depth import bracketed
from dashboard.families import Family
from dashboard.shelf import Shelf, cached, frame, reader
from warehouse import queries
from warehouse.filters import Filters


@dataclass(frozen=True)
class Place:
    """One family on one dataset. ``lengths``: fit to all datasets, which together tell what a
    prompt token costs."""

    filters: Filters
    family: Family
    dataset: str
    lengths: bool = False


@cached(32, Family)
def points(shelf: Shelf, filters: Filters, family: Family) -> pd.DataFrame:
    """What was measured of a family and its baseline at each K and load; see ``load_points``."""
    return of_family(_points(shelf, filters), family.system, family.family)


@cached(16)
def _points(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    # Read for these points alone, so not through the cache.
    measured = frame(queries.measurements(reader(shelf), filters, METRICS_READ, ("mean",)))
    return load_points(data.cells(shelf, filters), measured)


@cached(16)
def families(shelf: Shelf, filters: Filters) -> dict[str, Family]:
    """Name -> family, those alone of which a draft was measured with latencies and acceptance."""
    known, drafted = data_families.names(shelf, filters), _datasets(shelf, filters)
    return {
        name: family for name, family in known.items() if (family.system, family.family) in drafted
    }


def datasets(shelf: Shelf, filters: Filters, family: Family) -> list[str]:
    """The datasets on which the family was measured."""
    return _datasets(shelf, filters)[family.system, family.family]


@cached(16)
def _datasets(shelf: Shelf, filters: Filters) -> dict[tuple[int, str], list[str]]:
    """Datasets by system and family of the drafts that were measured."""
    known = _points(shelf, filters)
    found: dict[tuple[int, str], list[str]] = {}
    by = ["system", "family", "dataset"]
    for system, family, dataset in known.loc[known["k"] > 0, by].drop_duplicates().to_numpy():
        found.setdefault((int(system), str(family)), []).append(str(dataset))
    return {place: sorted(names) for place, names in found.items()}


@cached(32, Place)
def model(shelf: Shelf, place: Place) -> Model:
    """The fitted model. Raises InvalidInput where there is none."""
    known = points(shelf, place.filters, place.family)
    return build(known, _positions(shelf, place), place.dataset, place.lengths)


@cached(32, Place)
def errors(shelf: Shelf, place: Place) -> pd.DataFrame:
    """Errors of predictions of withheld points; see ``leave_one_out``."""
    known = points(shelf, place.filters, place.family)
    return leave_one_out(known, _positions(shelf, place), place.dataset, place.lengths)


@cached(32, Place)
def _positions(shelf: Shelf, place: Place) -> pd.DataFrame:
    cells = data_families.cells(shelf, place.filters, place.family)
    accepted = data_families.acceptance(shelf, place.filters)
    positions = data.positions(shelf, place.filters)
    of_cells = data_families.of_cells
    return position_counts(cells, of_cells(accepted, cells), of_cells(positions, cells))


@cached(32, Place)
def reach(shelf: Shelf, place: Place) -> Reach:
    """What may be asked; prompts as far as all datasets together reach."""
    return words.reach(model(shelf, replace(place, lengths=True)))


@cached(64, Place, Given)
def forecast(shelf: Shelf, place: Place, given: Given) -> Forecast:
    """The answer to one question."""
    return answered(model(shelf, place), errors(shelf, place), given.question())


@cached(64, Place, Given)
def numbers(shelf: Shelf, place: Place, given: Given) -> Shown:
    """The answer as a table."""
    return words.numbers(forecast(shelf, place, given), model(shelf, place), given)


@cached(128, Place, Given)
def _over_load(shelf: Shelf, place: Place, given: Given) -> list[Prediction]:
    """Predictions at every load; the load of ``given`` does not count."""
    known = model(shelf, place)
    if given.k == 0 and not (known.points["k"] == 0).any():
        return []
    return [known.predict(replace(given, load=load).question()) for load in words.grid(known)]


@cached(128, Place, Given)
def _over_k(shelf: Shelf, place: Place, given: Given) -> list[Prediction]:
    """Predictions for every K that may be asked; the K of ``given`` does not count."""
    known = model(shelf, place)
    return [known.predict(replace(given, k=k).question()) for k in reach(shelf, place).ks]


@cached(64, Place, Given)
def drawings(shelf: Shelf, place: Place, given: Given, metric: str) -> list[Drawing]:
    """Over the load, over K, and the errors of withheld points."""
    sheet = _sheet(shelf, place)
    # One line serves all loads, or all K: what moved is left out of its key.
    mine = _over_load(shelf, place, replace(given, load=1))
    baseline = _over_load(shelf, place, replace(given, load=1, k=0, rate=None))
    by_k = _over_k(shelf, place, replace(given, k=1))
    return [
        whatif_drawings.over_load(sheet, given, (mine, baseline), metric),
        whatif_drawings.over_k(sheet, given, by_k, metric),
        whatif_drawings.withheld(sheet, metric),
    ]


def _sheet(shelf: Shelf, place: Place) -> Sheet:
    note = "".join(bracketed(text) for text in place.family.badges)
    method = place.family.family.split(" ")[0]
    return Sheet(model(shelf, place), errors(shelf, place), place.dataset, method, note)


@cached(64, Textbook)
def textbook(shelf: Shelf, given: Textbook) -> tuple[Drawing, Shown]:
    """Both textbook models, drawn and with their parameters; no measurement stands behind them."""
    return answers_textbook.textbook_drawing(given), answers_textbook.textbook_table(given)
