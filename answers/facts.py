"""The differences of each study, derived when it changes and read instead of computed.

What they follow from is a study's deciding cells and the code that compares them; mixes, service
levels and objectives are chosen later and never part of it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa

from analysis.evidence.effects import Effects, effects, studies_of
from analysis.matching.comparison import Comparison
from answers.facts_code import code_hash
from warehouse.beside import derived_facts, keep_derived

_PLACE = ["setting", "arm_id", "load"]
_BY = ["setting", "arm_id", "metric", "statistic"]


def bases(cells: pd.DataFrame) -> pd.Series:
    """Return cell_id -> a hash of everything that its study's differences follow from.

    ``cells``: the deciding ones, as the query of that name returns them.
    """
    cells = cells.reset_index(drop=True)
    told = pd.DataFrame({
        "cell": cells["cell_id"].astype(str) + cells["ingested_at"].astype("int64").astype(str),
        "study": pd.factorize(pd.Series(studies_of(cells), dtype=object))[0],
    }).sort_values("cell")  # fmt: skip
    hashes = told.groupby("study")["cell"].agg(_hash)
    named = told["study"].map(hashes).sort_index()
    return pd.Series(named.to_numpy(), index=cells["cell_id"].astype(object))


def _hash(cells: Sequence[str]) -> str:
    return hashlib.sha256("\n".join([code_hash(), *cells]).encode()).hexdigest()


def known_effects(root: Path, judged: Comparison, cells: pd.DataFrame) -> Effects:
    """Return what ``effects`` does, read from kept facts where there are any."""
    basis = bases(cells)
    tables = {one: derived_facts(root, one) for one in basis.unique()}
    told = {one: table for one, table in tables.items() if table is not None}
    if not told:
        return effects(judged, cells)
    place = _places(judged)
    of_setting = dict(zip(place["setting"], place.index.map(basis.to_dict()), strict=True))
    unknown = ~judged.pairs["setting"].map(of_setting).isin(told)
    parts = [_restored(table, place) for table in told.values() if table.num_rows]
    if unknown.any() or not parts:
        parts.append(effects(replace(judged, pairs=judged.pairs[unknown]), cells))
    return Effects(
        _joined([part.levels for part in parts], [*_BY, "load"]),
        _joined([part.means for part in parts], _BY),
    )


def _joined(parts: list[pd.DataFrame], by: list[str]) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True).sort_values(by, ignore_index=True)


def _places(judged: Comparison) -> pd.DataFrame:
    """Return the setting, arm and load of each speculative cell, as numbers of this comparison; the
    index is the cell's id."""
    once = judged.pairs.drop_duplicates("speculative_id")
    return once[_PLACE].set_index(pd.Index(once["speculative_id"].astype(object)))


def keep(root: Path, judged: Comparison, cells: pd.DataFrame) -> None:
    """Derive and keep the differences of these cells' studies. Only under the writer's lock."""
    found, basis, place = effects(judged, cells), bases(cells), _places(judged)
    of_setting = dict(zip(place["setting"], place.index.map(basis.to_dict()), strict=True))
    levels, means = _named(found.levels, place, _PLACE), _named(found.means, place, _PLACE[:2])
    rows = pd.concat([levels.assign(mean=False), means.assign(mean=True)], ignore_index=True)
    of_row = rows["setting"].map(of_setting)
    for one in basis.unique():
        # Nothing to compare is kept as well: no rows.
        kept = rows[of_row == one].drop(columns=_PLACE)
        keep_derived(root, one, pa.Table.from_pandas(kept, preserve_index=False))


def _named(rows: pd.DataFrame, place: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows with ``cell``, the id of a speculative cell in the same place: an id means
    the same to every reader, a number only within one comparison."""
    cells = place.rename_axis("cell").reset_index().drop_duplicates(by)[[*by, "cell"]]
    return rows.merge(cells, on=by, how="left")


def _restored(table: pa.Table, place: pd.DataFrame) -> Effects:
    rows = table.to_pandas()
    # pandas makes texts of its own kind of what was written as objects.
    told = (table.schema.pandas_metadata or {}).get("columns", [])
    objects = [column["name"] for column in told if column["numpy_type"] == "object"]
    rows = rows.astype(dict.fromkeys(objects, object))
    numbers = place.reindex(rows.pop("cell")).reset_index(drop=True)
    mean = rows.pop("mean").to_numpy(dtype=bool)
    whole = pd.concat([numbers, rows], axis=1)
    return Effects(whole[~mean], whole[mean].drop(columns="load"))
