"""What answers stand on, read from the warehouse: whole studies, whatever is shown of them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.choice.gather import DECIDING
from analysis.evidence.broken_answers import TEXTS
from analysis.evidence.effects import Effects, effects, studies_of
from analysis.evidence.words import LIKELY_LOSS, LOSS
from analysis.flags.lints import DECIDES_NOTHING
from analysis.flags.lints_across import JUDGED_ACROSS
from analysis.frames import among, listed, objects, records
from analysis.matching.arms import ATTAINED
from analysis.matching.comparison import STUDY_TABLE, Comparison, compare
from analysis.matching.reference import BASELINE, against
from answers.broken import Broken, broken, flagged, suspects
from answers.decide.values import Excluded
from answers.facts import known_effects
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

#: metric, statistic
Line = tuple[str, str]

#: The lines whose differences are judged, always all of them: how sure each must be depends on how
#: many there are, and so must not depend on what somebody looks at.
JUDGED: tuple[Line, ...] = tuple(dict.fromkeys((*STUDY_TABLE, *DECIDING, ATTAINED)))
_FOR_FLAGS: tuple[Line, ...] = (
    ("output_tokens", "p50"), ("output_tokens", "mean"), ("error_rate", "mean"), ("prompt_tokens", "mean"), ("kv_cache_tokens", "mean"),
    *((metric, "mean") for metric in (*JUDGED_ACROSS, *TEXTS)),
)  # fmt: skip

#: A comparison of more cells than this takes more memory than a second of a processor is worth.
MOST_KEPT = 5_000


@dataclass(frozen=True)
class Asked:
    """What an answer needs to be read. ``filters`` choose what is shown, never what it stands on.
    ``allow``: fields in which pairs may differ; ``also``: lines read beside the judged ones;
    ``reference``: the arm that the others are compared with."""

    filters: Filters = Filters()
    allow: tuple[str, ...] = ()
    also: tuple[Line, ...] = ()
    reference: str = BASELINE


@dataclass(frozen=True)
class _Every:
    """All cells of some dates, and the number of each one's study."""

    cells: pd.DataFrame
    study: NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """The rows of the cells, measurements, flags and acceptance, as the queries of these names
    return them."""

    cells: pd.DataFrame
    measurements: pd.DataFrame
    flags: pd.DataFrame
    acceptance: pd.DataFrame


@dataclass(frozen=True)
class Ground:
    """The comparison of whole studies and its differences. ``shown``: ids of the cells that the
    filters keep; ``excluded``: cells that decide nothing, by setting; ``broken``: arms whose answers
    break; ``server_of``: what is known of a cell's server beside its facts."""

    cells: pd.DataFrame
    found: Comparison
    sure: Effects
    acceptance: pd.DataFrame
    shown: frozenset[str]
    excluded: dict[str, Excluded]
    broken: Broken = field(default_factory=dict)
    server_of: Callable[[str], dict[str, Any]] = lambda _: {}

    def with_answers(self, answers: pd.DataFrame) -> "Ground":
        """Return the same with what requests say of the answers (rows of the query ``answers``)."""
        told = broken(self.found, answers)
        return replace(self, found=flagged(self.found, told), broken=told) if told else self

    @cached_property
    def tells_engines(self) -> bool:
        """Whether anything is known of what an engine made of its arguments."""
        return "engine_settings" in self.cells and bool(self.cells["engine_settings"].notna().any())

    @cached_property
    def losing(self) -> dict[int, pd.DataFrame]:
        """Setting -> its differences, load by load, that are a loss or likely one."""
        rows = self.sure.levels
        bad = rows["word"].isin([LOSS, LIKELY_LOSS]) & (rows["load"] >= 0)
        return by_setting(rows[bad])

    @cached_property
    def pairs(self) -> dict[int, pd.DataFrame]:
        """Setting -> the pairs of its cells."""
        return by_setting(self.found.pairs)

    @cached_property
    def by_id(self) -> pd.DataFrame:
        """The cells, indexed by their ids."""
        return self.cells.set_index("cell_id", drop=False)

    @cached_property
    def hours(self) -> pd.Series:
        """When each cell started, in hours since the first; by cell_id."""
        started = pd.to_datetime(self.by_id["started_at"], utc=True)
        return (started - started.min()).dt.total_seconds() / 3600

    @cached_property
    def hours_apart(self) -> dict[int, float]:
        """Setting -> hours between the middles of two arms, where all cells of one started before
        all of the other; settings whose arms took turns, or could not with one launch of either,
        are left out."""
        pairs = self.found.pairs[["setting", "arm_id", "baseline_id", "speculative_id"]]
        once = pairs.drop_duplicates(["baseline_id", "speculative_id"])
        launches = self.sure.levels.groupby(["setting", "arm_id"])["launches"].max()
        at = {
            name: self.hours.reindex(once[f"{name}_id"].astype(object)).to_numpy()
            for name in ("baseline", "speculative")
        }
        told = once[["setting", "arm_id"]].assign(**at).dropna()
        by_arm = told.groupby(["setting", "arm_id"]).agg(["min", "max", "median"])
        one, other = by_arm["baseline"], by_arm["speculative"]
        in_turn = (one["max"] >= other["min"]) & (other["max"] >= one["min"])
        repeated = launches.reindex(by_arm.index, fill_value=0) > 1
        gaps = (one["median"] - other["median"]).abs()[~in_turn & repeated]
        largest = gaps.groupby(level="setting").max()
        return dict(zip(largest.index.tolist(), largest.tolist(), strict=True))


def by_setting(rows: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Return setting -> its rows. Looking all up at once is faster than searching for each."""
    places = rows.groupby("setting", sort=False).indices
    return {int(str(setting)): rows.iloc[at] for setting, at in places.items()}


def ground(reader: Reader, asked: Asked) -> Ground:
    """Compare all cells of every study that the filters touch.

    Raises UnknownKey for a field in ``asked.allow`` that pairs need not share anyway.
    """
    cells, ids = whole_studies(reader, asked.filters)
    if len(cells) > MOST_KEPT:
        return _ground(reader, asked, cells, ids)
    # Every page asks for it, and what is shown of the same studies changes nothing of it.
    told = (asked.allow, sorted(set(asked.also)), asked.reference)
    key = f"ground of {studies_key(asked.filters, cells)} {told}"
    known: Ground = reader.kept.get(key, lambda one: _ground(one, asked, cells, ids), reader)
    return replace(known, shown=ids)


def _ground(reader: Reader, asked: Asked, cells: pd.DataFrame, ids: frozenset[str]) -> Ground:
    filters = only_studies(_dates(asked.filters), cells)
    rows = rows_of(reader, cells, filters, asked.also)
    known = ground_of(rows, ids, asked.allow, asked.reference, reader.root)
    if asked.reference != BASELINE:
        return known
    doubtful = suspects(reader, known.found, filters)
    return known.with_answers(queries.answers(reader, doubtful).to_pandas())


def studies_key(filters: Filters, cells: pd.DataFrame) -> str:
    """Return what tells the whole studies apart that these are all cells of."""
    return f"{sorted(map(str, set(studies_of(cells))))} {_dates(filters)}"


def whole_studies(reader: Reader, filters: Filters) -> tuple[pd.DataFrame, frozenset[str]]:
    """Return all cells of every study that the filters touch, and the ids of those they keep."""
    dates = _dates(filters)
    every: _Every = reader.kept.get(
        f"cells of {dates}", lambda one: _numbered(queries.cells(one, dates).to_pandas()), reader
    )
    if filters == dates:
        return every.cells, frozenset(every.cells["cell_id"].astype(object))
    ids = frozenset(queries.cells(reader, filters).column("cell_id").to_pylist())
    return _touched(every, ids), ids


def _dates(filters: Filters) -> Filters:
    """Return the filters' dates alone."""
    return Filters(since=filters.since, until=filters.until)


def rows_of(
    reader: Reader, cells: pd.DataFrame, filters: Filters, also: Collection[Line] = ()
) -> Rows:
    """Read what an answer needs of the cells; ``filters`` keep at least these."""
    metrics, statistics = zip(*(*JUDGED, *_FOR_FLAGS, *also), strict=True)
    measured = queries.measurements(reader, filters, sorted({*metrics}), sorted({*statistics}))
    # Of other metrics nobody asks how short the shortest are.
    shortest = queries.measurements(reader, filters, ["output_tokens"], ["p05"])
    values = pd.concat([measured.to_pandas(), shortest.to_pandas()], ignore_index=True)
    doubtful = list(cells.loc[cells["flags"] > 0, "cell_id"])
    flags = queries.flags(reader, doubtful)
    acceptance = queries.acceptance(reader, filters)
    return Rows(cells, values, flags.to_pandas(), acceptance.to_pandas())


def ground_of(
    rows: Rows,
    shown: frozenset[str],
    allow: Collection[str] = (),
    reference: str = BASELINE,
    root: Path | None = None,
) -> Ground:
    """Compare rows that were read elsewhere. ``shown``: ids of the cells that are asked about;
    ``root``: the warehouse that may hold facts derived from these rows."""
    excluded = excluded_cells(rows.cells, rows.flags)
    deciding = against(rows.cells[~among(rows.cells["cell_id"], excluded)], reference)
    found = compare(deciding, rows.measurements, allow, rows.flags)
    judged = judged_pairs(found)
    if root is None or allow or reference != BASELINE:
        sure = effects(judged, deciding)
    else:
        sure = known_effects(root, judged, deciding)
    return Ground(rows.cells, found, sure, rows.acceptance, shown, excluded)


def judged_pairs(found: Comparison) -> Comparison:
    """Return the comparison with the pairs of the judged lines alone."""
    return replace(found, pairs=found.pairs[_of_lines(found.pairs, JUDGED)])


def _of_lines(rows: pd.DataFrame, lines: tuple[Line, ...]) -> pd.Series:
    """Return, for each row, whether it is of one of the lines."""
    names = pd.MultiIndex.from_arrays([rows["metric"].astype(str), rows["statistic"].astype(str)])
    return pd.Series(names.isin(lines), index=rows.index)


def _numbered(cells: pd.DataFrame) -> _Every:
    codes, _ = pd.factorize(objects(studies_of(cells), cells.index))
    return _Every(cells, codes)


def _touched(every: _Every, ids: frozenset[str]) -> pd.DataFrame:
    """Return all cells of the studies that have one of these."""
    shown = among(every.cells["cell_id"], ids).to_numpy()
    kept = np.isin(every.study, np.unique(every.study[shown]))
    return every.cells[kept].reset_index(drop=True)


def only_studies(dates: Filters, cells: pd.DataFrame) -> Filters:
    """Return filters that keep the cells' studies; ``dates`` alone where a study has no name."""
    if cells.empty or cells["study"].isna().any():
        return dates
    return replace(dates, study=tuple(sorted(cells["study"].unique())))


def deciding_cells(reader: Reader, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells without those that decide nothing."""
    flags = queries.flags(reader, list(cells.loc[cells["flags"] > 0, "cell_id"])).to_pandas()
    return cells[~among(cells["cell_id"], excluded_cells(cells, flags))]


def excluded_cells(cells: pd.DataFrame, flags: pd.DataFrame) -> dict[str, Excluded]:
    """Return cell -> why it decides nothing."""
    told = flags[flags["name"].isin(DECIDES_NOTHING)]
    barred = cells[among(cells["cell_id"], set(told["cell_id"]))]
    paths = dict(listed(barred, "cell_id", "path"))
    return {
        str(row["cell_id"]): Excluded(str(paths[row["cell_id"]]), str(row["sentence"]))
        for row in records(told)
    }
