"""What answers stand on, read from the warehouse: whole studies, whatever is shown of them."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from analysis.choice.gather import DECIDING
from analysis.drafts.acceptance_tables import believed
from analysis.evidence.broken_answers import (
    BY,
    TEXTS,
    by_texts,
)
from analysis.evidence.effects import Effects, effects, studies_of
from analysis.evidence.words import LIKELY_LOSS, LOSS
from analysis.flags.lints_across import JUDGED_ACROSS
from analysis.flags.validity import DECIDES_NOTHING
from analysis.frames import among, declared, listed, objects, plain
from analysis.matching.arms import ATTAINED, BASELINE, against
from analysis.matching.comparison import STUDY_TABLE, Comparison, compare
from answers import code_hash
from answers.breaking import Broken, KeptAnswers, answers_in_doubt, broken, counted
from answers.decide.values import ExcludedCell
from warehouse import beside, queries
from warehouse.filters import Filters
from warehouse.rows import Flag
from warehouse.storage.lock import WriterLock
from warehouse.store import Reader

#: metric, statistic
MetricLine = tuple[str, str]

#: The lines whose differences are judged, always all of them: how sure each must be depends on how
#: many there are, and so must not depend on what somebody looks at.
JUDGED: tuple[MetricLine, ...] = tuple(dict.fromkeys((*STUDY_TABLE, *DECIDING, ATTAINED)))
_ARM = ["setting", "arm_id"]
_SAME = ("study", "model", "gpu", "dataset")
_FOR_FLAGS: tuple[MetricLine, ...] = (
    ("output_tokens", "p50"), ("output_tokens", "mean"), ("error_rate", "mean"), ("prompt_tokens", "mean"), ("kv_cache_tokens", "mean"),
    *((metric, "mean") for metric in (*JUDGED_ACROSS, *TEXTS)),
)  # fmt: skip

#: A comparison of more cells than this takes more memory than a second of a processor is worth.
MOST_KEPT = 5_000


@dataclass(frozen=True)
class WarehouseRows:
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
    break; ``server_of``: what is known of a cell's server beside its facts; ``kept``: what need not be
    read of answers again."""

    cells: pd.DataFrame
    found: Comparison
    sure: Effects
    acceptance: pd.DataFrame
    shown: frozenset[str]
    excluded: dict[str, ExcludedCell]
    kept: KeptAnswers = field(default_factory=KeptAnswers)
    broken: Broken = field(default_factory=dict)
    server_of: Callable[[str], dict[str, Any]] = lambda _: {}

    @cached_property
    def unread(self) -> tuple[Comparison, pd.DataFrame]:
        """The comparison, and the shares of texts that break, of settings of whose answers nothing is kept."""
        settings, comparison = self.kept.settings, self.found
        if not settings:
            return comparison, self.texts
        pairs = comparison.pairs[~comparison.pairs["setting"].isin(settings)]
        texts = self.texts[~self.texts["setting"].isin(settings)]
        return replace(comparison, pairs=pairs), texts

    def with_answers(self, answers: pd.DataFrame) -> "Ground":
        """Return the same with what requests say of the answers (rows of the query ``answers``), and
        with a flag on each pair whose arm's answers break."""
        comparison = self.found
        every = pd.concat([self.kept.rows, counted(*self.unread, answers)], ignore_index=True)
        breaks = broken(comparison, every)
        if not breaks:
            return self
        place_of = {load: place for place, load in enumerate(comparison.loads)}
        flags: dict[Any, list[Flag]] = {}
        for setting, arm in ((setting, arm) for setting, arms in breaks.items() for arm in arms):
            flag = Flag(
                "broken_answers", "error" if arm.settled else "warning", f"{arm.deviation}."
            )
            flags.setdefault((setting, arm.arm_id, place_of[arm.load]), []).append(flag)
        old = comparison.pairs["flags"].to_numpy(copy=True)
        rows = comparison.pairs.groupby(BY).indices
        for key, more in flags.items():
            for row in rows.get(key, ()):
                old[row] = (*more, *old[row])
        pairs = comparison.pairs.assign(flags=objects(list(old), comparison.pairs.index))
        return replace(self, found=replace(comparison, pairs=pairs), broken=breaks)

    @cached_property
    def shown_pairs(self) -> pd.DataFrame:
        """The pairs of which the filters keep the speculative cell."""
        pairs = self.found.pairs
        return pairs[pairs["speculative_id"].astype(object).isin(self.shown)]

    def of_shown_arms(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of arms of which the filters keep a cell."""
        arms = pd.MultiIndex.from_frame(self.shown_pairs[_ARM].drop_duplicates())
        return rows[pd.MultiIndex.from_frame(rows[_ARM]).isin(arms)]

    @cached_property
    def texts(self) -> pd.DataFrame:
        """The shares of answers that are broken by their texts, of the baseline and of each arm."""
        return by_texts(self.found.pairs)

    @cached_property
    def tells_engines(self) -> bool:
        """Whether anything is known of what an engine made of its arguments, or fields may differ by leave."""
        known = "engine_settings" in self.cells and self.cells["engine_settings"].notna().any()
        return bool(known) or any(self.found.pairs["allowed"])

    @cached_property
    def losing(self) -> dict[int, pd.DataFrame]:
        """Setting -> its differences, load by load, that are a loss or likely one."""
        rows = self.sure.levels
        return _by_setting(rows[rows["word"].isin([LOSS, LIKELY_LOSS]) & (rows["load"] >= 0)])

    @cached_property
    def pairs(self) -> dict[int, pd.DataFrame]:
        """Setting -> the pairs of its cells."""
        return _by_setting(self.found.pairs)

    @cached_property
    def flags(self) -> dict[tuple[int, int], list[Flag]]:
        """(setting, arm_id) -> the flags of its pairs."""
        found: dict[tuple[int, int], list[Flag]] = {}
        once = self.found.pairs.drop_duplicates("speculative_id")
        for setting, arm, flags in listed(once, "setting", "arm_id", "flags"):
            found.setdefault((setting, arm), []).extend(flags)
        return found

    @cached_property
    def _excluded_by(self) -> dict[tuple[Any, ...], list[ExcludedCell]]:
        """Values of _SAME -> the cells that decide nothing."""
        found: dict[tuple[Any, ...], list[ExcludedCell]] = {}
        cells = self.cells[among(self.cells["cell_id"], self.excluded)]
        for cell, *facts in listed(cells, "cell_id", *_SAME):
            found.setdefault(tuple(map(plain, facts)), []).append(self.excluded[cell])
        return found

    def excluded_beside(self, keys: Mapping[str, Any]) -> tuple[ExcludedCell, ...]:
        """Return the cells of the same study, model, hardware and dataset that decide nothing."""
        return tuple(self._excluded_by.get(tuple(keys.get(name) for name in _SAME), ()))

    @cached_property
    def by_id(self) -> pd.DataFrame:
        """The cells, indexed by their ids."""
        return self.cells.set_index("cell_id", drop=False)

    @cached_property
    def lengths(self) -> dict[str, float]:
        """The tokens of a step of each cell of which they are known, by cell_id."""
        stated = believed(self.acceptance).dropna(subset="mean_length")
        return dict(listed(stated, "cell_id", "mean_length"))

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
        started = once[["setting", "arm_id"]].assign(**at).dropna()
        by_arm = started.groupby(["setting", "arm_id"]).agg(["min", "max", "median"])
        baseline, arm = by_arm["baseline"], by_arm["speculative"]
        in_turn = (baseline["max"] >= arm["min"]) & (arm["max"] >= baseline["min"])
        repeated = launches.reindex(by_arm.index, fill_value=0) > 1
        gaps = (baseline["median"] - arm["median"]).abs()[~in_turn & repeated]
        largest = gaps.groupby(level="setting").max()
        return dict(zip(largest.index.tolist(), largest.tolist(), strict=True))


def _by_setting(rows: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Return setting -> its rows. Looking all up at once is faster than searching for each."""
    places = rows.groupby("setting", sort=False).indices
    return {int(str(setting)): rows.iloc[at] for setting, at in places.items()}


def ground(
    reader: Reader,
    filters: Filters | None = None,
    allow: tuple[str, ...] = (),
    also: tuple[MetricLine, ...] = (),
    reference: str = BASELINE,
    barred: frozenset[str] = DECIDES_NOTHING,
) -> Ground:
    """Compare all cells of every study that the ``filters`` touch: they choose what is shown, never
    what it stands on. ``allow``: fields in which pairs may differ; ``also``: lines read beside the
    judged ones; ``reference``: the arm that the others are compared with; ``barred``: the flags of
    cells that are left out.

    Raises UnknownKey for a field in ``allow`` that pairs need not share anyway.
    """
    filters = filters or Filters()
    cells, ids = whole_studies(reader, filters)

    def made(reader: Reader) -> Ground:
        whole = _only_studies(_dates(filters), cells)
        rows = rows_of(reader, cells, whole, also)
        compared = ground_of(rows, ids, allow, reference, reader.root, barred)
        if reference != BASELINE:
            return compared
        return compared.with_answers(answers_in_doubt(reader, *compared.unread, whole))

    if len(cells) > MOST_KEPT:
        return made(reader)
    # Every page asks for it, and what is shown of the same studies changes nothing of it.
    key = f"ground of {studies_key(filters, cells)} {(allow, sorted(set(also)), reference, sorted(barred))}"
    compared: Ground = reader.kept.get(key, made, reader)
    return replace(compared, shown=ids)


def cells_kept(reader: Reader, filters: Filters) -> int:
    """Return how many cells the filters keep."""
    return int(queries.cells(reader, filters).num_rows)


def studies_key(filters: Filters, cells: pd.DataFrame) -> str:
    """Return what tells the whole studies apart that these are all cells of."""
    return f"{sorted(map(str, set(studies_of(cells))))} {_dates(filters)}"


def whole_studies(reader: Reader, filters: Filters) -> tuple[pd.DataFrame, frozenset[str]]:
    """Return all cells of every study that the filters touch, and the ids of those they keep."""
    dates = _dates(filters)

    def numbered(reader: Reader) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        rows = queries.cells(reader, dates).to_pandas()
        return rows, pd.factorize(objects(studies_of(rows), rows.index))[0]

    kept: tuple[pd.DataFrame, NDArray[np.int64]] = reader.kept.get(
        f"cells of {dates}", numbered, reader
    )
    cells, study = kept
    if filters == dates:
        return cells, frozenset(cells["cell_id"].astype(object))
    ids = frozenset(queries.cells(reader, filters).column("cell_id").to_pylist())
    shown = among(cells["cell_id"], ids).to_numpy()
    return cells[np.isin(study, np.unique(study[shown]))].reset_index(drop=True), ids


def _dates(filters: Filters) -> Filters:
    return Filters(since=filters.since, until=filters.until)


def rows_of(
    reader: Reader, cells: pd.DataFrame, filters: Filters, also: Collection[MetricLine] = ()
) -> WarehouseRows:
    """Read what an answer needs of the cells; ``filters`` keep at least these."""
    metrics, statistics = zip(*(*JUDGED, *_FOR_FLAGS, *also), strict=True)
    measured = queries.measurements(reader, filters, sorted({*metrics}), sorted({*statistics}))
    # Of other metrics nobody asks how short the shortest are.
    shortest = queries.measurements(reader, filters, ["output_tokens"], ["p05"])
    values = pd.concat([measured.to_pandas(), shortest.to_pandas()], ignore_index=True)
    return WarehouseRows(
        cells, values, _flags_of(reader, cells), queries.acceptance(reader, filters).to_pandas()
    )


def _flags_of(reader: Reader, cells: pd.DataFrame) -> pd.DataFrame:
    doubtful = list(cells.loc[cells["flags"] > 0, "cell_id"])
    return pd.DataFrame(queries.flags(reader, doubtful).to_pandas())


def ground_of(
    rows: WarehouseRows,
    shown: frozenset[str],
    allow: Collection[str] = (),
    reference: str = BASELINE,
    root: Path | None = None,
    barred: frozenset[str] = DECIDES_NOTHING,
) -> Ground:
    """Compare rows that were read elsewhere. ``shown``: ids of the cells that are asked about;
    ``root``: the warehouse that may hold facts derived from these rows; ``barred``: as above."""
    excluded = excluded_cells(rows.cells, rows.flags, barred)
    deciding = against(rows.cells[~among(rows.cells["cell_id"], excluded)], reference)
    comparison = compare(deciding, rows.measurements, allow, rows.flags)
    if root is None or allow or reference != BASELINE:
        differences, kept = effects(_judged_pairs(comparison), deciding), KeptAnswers()
    else:
        differences, kept = known_facts(root, comparison, deciding)
    return Ground(rows.cells, comparison, differences, rows.acceptance, shown, excluded, kept)


def _judged_pairs(comparison: Comparison) -> Comparison:
    names = [comparison.pairs[name].astype(str) for name in ("metric", "statistic")]
    return replace(
        comparison, pairs=comparison.pairs[pd.MultiIndex.from_arrays(names).isin(JUDGED)]
    )


def _only_studies(dates: Filters, cells: pd.DataFrame) -> Filters:
    """Return filters that keep the cells' studies; ``dates`` alone where a study has no name."""
    if cells.empty or cells["study"].isna().any():
        return dates
    return replace(dates, study=tuple(sorted(cells["study"].unique())))


def deciding_cells(
    reader: Reader, cells: pd.DataFrame, barred: frozenset[str] = DECIDES_NOTHING
) -> pd.DataFrame:
    """Return the cells without those that decide nothing. ``barred``: the flags that say so."""
    excluded = excluded_cells(cells, _flags_of(reader, cells), barred)
    return cells[~among(cells["cell_id"], excluded)]


def excluded_cells(
    cells: pd.DataFrame, flags: pd.DataFrame, names: frozenset[str] = DECIDES_NOTHING
) -> dict[str, ExcludedCell]:
    """Return cell -> why it decides nothing: what one of the flags of these names says."""
    bars = flags[flags["name"].isin(names)]
    barred = cells[among(cells["cell_id"], set(bars["cell_id"]))]
    paths = dict(listed(barred, "cell_id", "path"))
    return {
        str(cell): ExcludedCell(str(paths[cell]), str(sentence))
        for cell, sentence in listed(bars, "cell_id", "sentence")
    }


# --- The differences of each study, derived when it changes and read instead of computed.
#
# What they follow from is a study's deciding cells and the code that compares them; mixes, service
# levels and objectives are chosen later and never part of it.


_PLACE = ["setting", "arm_id", "load"]


def _bases(cells: pd.DataFrame) -> pd.Series:
    """Return cell_id -> a hash of everything that its study's differences follow from.

    ``cells``: the deciding ones, as the query of that name returns them.
    """
    parts: dict[Any, list[str]] = {}
    ingested = cells["ingested_at"].astype("int64")
    studies = pd.factorize(pd.Series(studies_of(cells), dtype=object))[0].tolist()
    for study, cell, at in zip(studies, cells["cell_id"], ingested, strict=True):
        parts.setdefault(study, []).append(f"{cell}{at}")
    hashes = {
        study: hashlib.sha256("\n".join([code_hash(), *sorted(texts)]).encode()).hexdigest()
        for study, texts in parts.items()
    }
    ids = cells["cell_id"].astype(object)
    return pd.Series([hashes[study] for study in studies], index=ids, dtype=object)


def known_facts(
    root: Path, comparison: Comparison, cells: pd.DataFrame
) -> tuple[Effects, KeptAnswers]:
    """Return what ``effects`` does of the judged lines, read from kept facts where there are any, and what
    is kept of answers."""
    judged, basis = _judged_pairs(comparison), _bases(cells)
    facts = {digest: beside.derived_facts(root, digest) for digest in basis.unique()}
    kept = {digest: tables for digest, tables in facts.items() if tables is not None}
    if not kept:
        return effects(judged, cells), KeptAnswers()
    places = _places(comparison)
    of_setting = dict(zip(places["setting"], places.index.map(basis.to_dict()), strict=True))
    settings = frozenset(setting for setting, digest in of_setting.items() if digest in kept)
    missing = ~judged.pairs["setting"].isin(settings)
    parts = [_restored(table, places) for table, _ in kept.values() if table.num_rows]
    if missing.any() or not parts:
        parts.append(effects(replace(judged, pairs=judged.pairs[missing]), cells))
    by = ["setting", "arm_id", "metric", "statistic"]
    levels, means = (pd.concat(rows, ignore_index=True) for rows in (
        [part.levels for part in parts], [part.means for part in parts],
    ))  # fmt: skip
    differences = Effects(
        declared("effects by load", levels.sort_values([*by, "load"], ignore_index=True)),
        declared("effects", means.sort_values(by, ignore_index=True)),
    )
    answered = [_numbered(table, places) for _, table in kept.values() if table.num_rows]
    rows = pd.concat([KeptAnswers().rows, *answered], ignore_index=True)
    return differences, KeptAnswers(settings, rows)


def _places(comparison: Comparison) -> pd.DataFrame:
    """Return the setting, arm and load of each speculative cell, as numbers of this comparison; the
    index is the cell's id."""
    once = comparison.pairs.drop_duplicates("speculative_id")
    return once[_PLACE].set_index(pd.Index(once["speculative_id"].astype(object)))


def _numbered(table: pa.Table, places: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table of facts with the numbers of this comparison in place of the cell's id."""
    rows = table.to_pandas()
    # pandas makes texts of its own kind of what was written as objects.
    columns = (table.schema.pandas_metadata or {}).get("columns", [])
    texts = [column["name"] for column in columns if column["numpy_type"] == "object"]
    rows = rows.astype(dict.fromkeys(texts, object))
    numbers = places.reindex(rows.pop("cell")).reset_index(drop=True)
    return pd.DataFrame(pd.concat([numbers, rows], axis=1))


def _restored(table: pa.Table, places: pd.DataFrame) -> Effects:
    whole = _numbered(table, places)
    mean = whole.pop("mean").to_numpy(dtype=bool)
    return Effects(whole[~mean], whole[mean].drop(columns="load"))


def derive(root: Path) -> int:
    """Derive the facts that are not kept yet, and return how many studies they are of.

    Raises WarehouseBusy where somebody writes: what is not derived is computed when it is asked
    for.
    """
    with Reader(root) as reader:
        cells = queries.cells(reader, Filters()).to_pandas()
        deciding = against(deciding_cells(reader, cells), BASELINE)
        basis = _bases(deciding)
        missing = [digest for digest in basis.unique() if not beside.is_derived(root, digest)]
        with WriterLock(root).held(wait=False, on_wait=None):
            for digests in _batches(basis, missing):
                changed = deciding[basis.isin(digests).to_numpy()].reset_index(drop=True)
                filters = _only_studies(Filters(), changed)
                of_changed = ground_of(rows_of(reader, changed, filters), frozenset())
                answers = answers_in_doubt(reader, *of_changed.unread, filters)
                _keep_facts(root, of_changed, answers)
            beside.drop_other_derived(root, set(basis))
            if len(cells):
                newest = cells["ingested_at"].max().to_pydatetime()
                beside.note_derived_upto(root, code_hash(), newest)
    return len(missing)


def _batches(basis: pd.Series, missing: list[str]) -> Iterator[list[str]]:
    """Yield those that are missing, together as many as the memory of a comparison is worth."""
    sizes, batch, held = basis.value_counts(), list[str](), 0
    for digest in missing:
        batch, held = [*batch, digest], held + int(sizes[digest])
        if held >= MOST_KEPT:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _keep_facts(root: Path, of_studies: Ground, answers: pd.DataFrame) -> None:
    basis, places = _bases(of_studies.cells), _places(of_studies.found)
    of_setting = dict(zip(places["setting"], places.index.map(basis.to_dict()), strict=True))
    # The id of a cell means the same to every reader, a number only within one comparison.
    cells = places.rename_axis("cell").reset_index()

    def told(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
        ids = cells.drop_duplicates(by)[[*by, "cell"]]
        return rows.merge(ids, on=by, how="left")

    sure = of_studies.sure
    differences = pd.concat(
        [
            told(sure.levels, _PLACE).assign(mean=False),
            told(sure.means, _PLACE[:2]).assign(mean=True),
        ],
        ignore_index=True,
    )
    counts = counted(*of_studies.unread, answers)
    tables = [
        (rows, rows["setting"].map(of_setting)) for rows in (differences, told(counts, _PLACE))
    ]
    for digest in basis.unique():
        # Nothing to compare is kept as well: no rows.
        parts = (rows[of_row == digest].drop(columns=_PLACE) for rows, of_row in tables)
        beside.keep_derived(
            root, digest, *(pa.Table.from_pandas(part, preserve_index=False) for part in parts)
        )
