"""Which arms of a search do not answer as the baseline does at temperature 0."""

from collections.abc import Iterator

import pandas as pd

from analysis.evidence.output_check import COLUMNS
from analysis.evidence.same_answers import TOKENS, Parting, parting, together
from answers.search.values import Out
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store_read import Reader


def answering_otherwise(reader: Reader, study: str, baseline: str) -> tuple[Out, ...]:
    """Return the arms whose answers part from the baseline's more often than by rounding.

    Of every arm one cell of each dataset and load is read. Cells above temperature 0, answers that were
    not kept, and those of dummy weights, among which near ties are common, tell nothing.
    """
    cells = queries.cells(reader, Filters(study=(study,))).to_pandas()
    telling = (cells["temperature"] == 0) & (cells["evidence"] != "dummy_weights")
    greedy = cells[(cells["status"] == "good") & telling]
    rows = greedy.sort_values("started_at").astype({"cell_id": object})
    own = _own(reader, rows[rows["arm"] == baseline])
    found = {
        str(arm): together(_partings(reader, rows, baseline, str(arm)))
        for arm in rows["arm"].dropna().unique()
        if arm != baseline
    }
    return tuple(Out(arm, _words(one)) for arm, one in found.items() if one.is_other(own))


_AT = ["dataset", "concurrency"]


def _own(reader: Reader, baseline: pd.DataFrame) -> Parting:
    """Return how soon the first two launches of the baseline part, where there are two."""
    pairs = (rows["cell_id"].tolist()[:2] for _, rows in baseline.groupby(_AT))
    return together(_read(reader, *pair) for pair in pairs if len(pair) == 2)


def _partings(reader: Reader, rows: pd.DataFrame, baseline: str, arm: str) -> Iterator[Parting]:
    first = rows.drop_duplicates(["arm", *_AT])
    one, other = (first[first["arm"] == name][["cell_id", *_AT]] for name in (baseline, arm))
    for pair in one.merge(other, on=_AT)[["cell_id_x", "cell_id_y"]].itertuples(index=False):
        yield _read(reader, *pair)


def _read(reader: Reader, baseline: str, other: str) -> Parting:
    return parting(
        *(queries.requests(reader, cell, COLUMNS).to_pandas() for cell in (baseline, other))
    )


def _words(one: Parting) -> str:
    return (
        f"it does not answer as the baseline at temperature 0: {one.parted} of {one.texts} answers "
        f"differ, after {one.tokens / one.parted:.0f} tokens on average; rounding alone makes fewer than "
        f"one in {TOKENS} differ, and --any-outputs takes the arm all the same"
    )
