"""An upgrade of the engine as an answer: what the newer release did to the baseline, to each arm, to the gains, to
acceptance and to the answers, in one paragraph."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.evidence.broken_answers import IDS
from analysis.evidence.effects import ENDS, effects
from analysis.evidence.output_check import COLUMNS, check_outputs
from analysis.evidence.releases import COMPARED, by_release, gain_changes
from analysis.evidence.words import LOSS, SETTLED
from analysis.frames import among, listed, plain, records
from analysis.matching.arms import BASELINE
from analysis.matching.comparison import Comparison, compare
from analysis.matching.fields import loads_of
from analysis.nightly.regressions import FINE, OPEN, REGRESSION, Budgets, Status, worst
from answers.compare.values import JudgedChange, load_name, metric_name, number
from answers.decide.tables import greedy
from answers.decide.values import ExcludedCell
from answers.ground import Ground, excluded_cells, rows_of
from answers.wording import TextRows, badges, bracketed, directed, known, percent, size
from answers.wording import listed as joined
from warehouse import queries
from warehouse.catalogue import METRICS
from warehouse.defects import release_of
from warehouse.filters import Filters
from warehouse.store import Reader

#: The figure that the paragraph tells of each arm.
_MAIN = ("output_throughput", "mean")
_LENGTH = ("mean_acceptance_length", "mean")
_ALL_LOADS = "all loads"
#: Half a night: launches that lie further apart took no turns.
_NEAR_HOURS = 12.0
_EVERY = ["setting", "arm_id", "load", "metric", "statistic"]
#: A figure of the older release, and of the newer one.
_VALUES = ["baseline", "speculative"]


@dataclass(frozen=True)
class UpgradeLine(JudgedChange):
    """What the newer release did to one figure of an arm at a load, ``all`` of them together, or, with
    ``of_gain``, to the gain of that figure over the baseline's. ``before`` and ``after`` are in the
    metric's unit, None for a gain."""

    arm: str
    dataset: str
    tensor_parallel_size: int | None
    load: str
    metric: str
    statistic: str
    of_gain: bool
    before: float | None
    after: float | None
    status: Status

    @property
    def name(self) -> str:
        """Whose figure it is, or whose gain: ``the gain of eagle3 K=3``."""
        return f"the gain of {self.arm}" if self.of_gain else self.arm

    @property
    def where(self) -> str:
        """Dataset, tensor parallel size and load: ``code, TP 1, 16 at once``."""
        parallel = () if self.tensor_parallel_size is None else (f"TP {self.tensor_parallel_size}",)
        return ", ".join((self.dataset, *parallel, self.load))

    @property
    def change(self) -> str:
        """The change with its interval: ``9.8 % fewer output tokens per second (95 %: 8.1 to 11.4 %)``."""
        better = self.improvement >= 0
        word = METRICS[self.metric].changes[0 if better else 1]
        if self.of_gain:
            word = f"{'better' if better else 'worse'} in {metric_name(self.metric, self.statistic).lower()}"
        sure = directed(self.low, self.high, better)
        return f"{size(self.improvement)} {word}" + (f" (95 %: {sure})" if sure else "")


@dataclass(frozen=True)
class Upgrade:
    """One release of an engine against another. ``launches``: of the arm with the fewest; ``lines``: worst
    first; ``outputs``: how the answers compare, a sentence an arm; ``doubts``: what speaks against it."""

    engine: str
    before: str
    after: str
    status: Status
    launches: int
    headline: str
    paragraph: str
    lines: tuple[UpgradeLine, ...]
    outputs: tuple[str, ...]
    doubts: tuple[str, ...]


def upgrade_rows(found: Upgrade) -> TextRows:
    """Return the figures as a table, worst first: of a regression those that are worse, else all that are not
    settled."""
    lines = [line for line in found.lines if line.status == found.status != FINE]
    rows = [[line.name, line.where, line.change, str(line.word)] for line in lines]
    return ["whose", "where", "change", "word"], rows


def both_measured(reader: Reader, filters: Filters) -> tuple[tuple[str, str], ...]:
    """Return each engine version behind the last one before it that a study was measured with as well."""
    cells = queries.cells(reader, filters).to_pandas()
    known = cells.dropna(subset=["engine_version"])
    studies = known.groupby("study")["engine_version"].agg(set)
    # A candidate of a release stands before it; what else they end with puts them in one order.
    order = sorted(
        set(known["engine_version"].astype(str)),
        key=lambda one: (release_of(one), "rc" not in one and "dev" not in one, one),
    )
    return tuple(
        (both[-1], later) for at, later in enumerate(order)
        if (both := [one for one in order[:at] if any({one, later} <= each for each in studies)])
    )  # fmt: skip


def upgrade(
    reader: Reader, filters: Filters, before: str, after: str, budgets: Budgets | None = None
) -> Upgrade | None:
    """Compare two engine versions over the cells that the filters keep, each arm with itself: same study,
    prompts, load and settings. ``budgets``: how much worse is still fine. None where no cell of one
    has a partner of the other.
    """
    budgets = budgets or Budgets()
    whole = queries.cells(reader, filters).to_pandas()
    whole = whole[whole["engine_version"].isin([before, after])].reset_index(drop=True)
    rows = rows_of(reader, whole, filters, COMPARED)
    excluded = excluded_cells(whole, rows.flags)
    cells = by_release(whole[~among(whole["cell_id"], excluded)], before, after)
    lines = pd.MultiIndex.from_frame(rows.measurements[["metric", "statistic"]].astype(str))
    measured = rows.measurements[
        lines.isin(COMPARED) & among(rows.measurements["cell_id"], cells["cell_id"])
    ]
    comparison = compare(cells, measured, ("engine_version",), rows.flags)
    if comparison.pairs.empty:
        return None
    found = effects(comparison, cells)
    told = pd.concat([found.levels, found.means.assign(load=-1)], ignore_index=True)
    ground = Ground(cells, comparison, found, rows.acceptance, frozenset(cells["cell_id"]), {})
    values = pd.concat([comparison.levels, comparison.geomean.assign(load=-1)], ignore_index=True)
    values = values[[*_EVERY, *_VALUES]].drop_duplicates(_EVERY, keep="last")
    table = tuple(sorted(
        (*_lines(told.merge(values, on=_EVERY, how="left"), comparison, budgets, False),
         *_lines(gain_changes(told, comparison.keys), comparison, budgets, True)),
        key=lambda line: ((REGRESSION, OPEN, FINE).index(line.status), line.of_gain, line.improvement),
    ))  # fmt: skip
    engine = str(cells["engine"].iloc[0] or "The engine")
    name = {"vllm": "vLLM", "sglang": "SGLang"}.get(engine, engine)
    launches, outputs = int(told["launches"].min()), tuple(_outputs(reader, comparison))
    lost = tuple(_lost(whole, measured, comparison, excluded))
    status = worst((*(line.status for line in table), OPEN if lost else FINE))
    marks = bracketed(*dict.fromkeys(
        text for facts in listed(cells.drop_duplicates(["evidence", "synthetic_acceptance"]),
                                 "evidence", "synthetic_acceptance")
        for text in badges(facts[0], bool(facts[1]))
    ))  # fmt: skip
    headline = f"{name} {after} against {before}{marks}: {_headline(table, status, lost)}"
    return Upgrade(
        engine, before, after, status, launches, headline,
        " ".join((headline, f"Launches of each arm with either: {launches}.", *_sentences(table), *outputs)),
        table, outputs, tuple(_doubts(ground, launches)),
    )  # fmt: skip


def _lines(
    rows: pd.DataFrame, comparison: Comparison, budgets: Budgets, of_gain: bool
) -> Iterator[UpgradeLine]:
    for row in records(rows):
        key = comparison.keys.loc[(row["setting"], row["arm_id"])]
        metric, statistic = str(row["metric"]), str(row["statistic"])
        ends = {end: plain(row[end]) for end in ENDS}
        parallel = key.get("tensor_parallel_size")
        then, now = (None if of_gain else plain(row[side]) for side in _VALUES)
        allowed, low = budgets.allowed(metric, statistic), ends["adjusted_low"]
        status = OPEN if low is None or low <= -allowed else FINE
        if row["word"] == LOSS and row["improvement"] < -allowed:
            status = REGRESSION
        yield UpgradeLine(
            str(key["arm_label"]), str(key["dataset"]), None if pd.isna(parallel) else int(parallel),
            _ALL_LOADS if row["load"] < 0 else comparison.loads[row["load"]].text,
            metric, statistic, of_gain, then, now, status, improvement=float(row["improvement"]), **ends,
            word=row["word"],
        )  # fmt: skip


def _lost(
    cells: pd.DataFrame, measured: pd.DataFrame, comparison: Comparison,
    excluded: dict[str, ExcludedCell],
) -> Iterator[str]:  # fmt: skip
    """Yield each arm, dataset and load that was measured with both releases and cannot be compared, since its
    cells of one decide nothing or have no partner, and why; else its figures that only one release tells."""
    stated, met = (
        {*listed(rows, cell, "metric", "statistic")}
        for rows, cell in ((measured, "cell_id"), (comparison.pairs, IDS[1]))
    )
    reasons = dict(listed(comparison.unmatched, "cell_id", "reason")) | {
        cell: one.why for cell, one in excluded.items()
    }
    places: dict[str, list[tuple[str, str]]] = {}
    told = listed(cells, "cell_id", "engine_version", "arm_label", "dataset")
    for (cell, version, arm, dataset), load in zip(told, loads_of(cells), strict=True):
        name = f"{known(arm)} ({known(dataset)}, {load_name(load)})"
        places.setdefault(name, []).append((str(cell), str(version)))
    for name, here in places.items():
        # What decides nothing with either release, such as acceptance set by hand, was not asked about.
        left = [cell for cell, _ in here if cell not in excluded]
        asked = bool(left) and len({version for _, version in here}) > 1
        lines, compared = (
            {line for cell in left for line in COMPARED if (cell, *line) in of}
            for of in (stated, met)
        )
        if asked and not compared:
            # The newer release's cells say in what they differ from the older one's.
            cell = min(
                reasons.keys() & dict(here),
                key=lambda one: (one not in excluded, "nearest speculative" in reasons[one], one),
            )
            why = (
                reasons[cell].rpartition(" differs: ")[2].partition(": compare all")[0].rstrip(".")
            )
            yield f"{name}: {why.replace(' here and ', ' now and ').replace(' there', ' then')}"
        elif asked and lines > compared:
            lacking = [metric_name(*line) for line in COMPARED if line in lines - compared]
            yield f"{joined(lacking)} of {name}, which one release alone tells"


def _headline(lines: tuple[UpgradeLine, ...], status: Status, lost: tuple[str, ...]) -> str:
    parts = [f"nothing is known of {joined([*lost])}"] if lost else []
    if status == REGRESSION:
        bad = [line for line in lines if line.status == REGRESSION]
        first = next((line for line in bad if (line.metric, line.statistic) == _MAIN), bad[0])
        more = f"; {len(bad) - 1:,} more of {len(lines):,} figures are worse" if bad[1:] else ""
        return f"regression. {'; '.join([_said(first) + more, *parts])}."
    if status == FINE:
        return f"fine. A loss beyond the budget is excluded in all {len(lines):,} figures."
    left = sum(line.status == OPEN for line in lines)
    if left:
        parts.insert(
            0, f"{left:,} of {len(lines):,} figures are not settled: more --repeats settle them"
        )
    return f"no regression is shown, but {'; '.join(parts)}."


def _said(line: UpgradeLine) -> str:
    return f"{line.name.replace('the gain', 'The gain')} ({line.where}): {line.change}"


def _sentences(lines: tuple[UpgradeLine, ...]) -> Iterator[str]:
    """Yield a sentence over all loads for the baseline, for each arm, for what they accept and for their
    gains; datasets one after the other."""
    told = [
        line for line in lines
        if line.load == _ALL_LOADS
        and ((line.metric, line.statistic) == _MAIN
             or ((line.metric, line.statistic) == _LENGTH and not line.of_gain))
    ]  # fmt: skip
    for line in sorted(told, key=lambda line: (line.arm != BASELINE, line.of_gain, line.dataset)):
        values = "" if line.before is None or line.after is None else (
            f", {number(line.before, line.metric)} then and {number(line.after, line.metric)} now"
        )  # fmt: skip
        sure = "" if line.word in SETTLED else f": {line.word}"
        yield f"{_said(line)}{values}{sure}."


def _outputs(reader: Reader, comparison: Comparison) -> Iterator[str]:
    """Yield how long the answers of each arm are then and now, and at temperature 0 how many are the same."""
    pairs = comparison.pairs.drop_duplicates(IDS)
    lengths, same = [], []
    for key, rows in pairs.groupby(["setting", "arm_id"]):
        ids = [*listed(rows.astype(dict.fromkeys(IDS, str)), *IDS)]
        then, now = (
            pd.concat([
                queries.requests(reader, pair[at], COLUMNS).to_pandas().assign(pair=number)
                for number, pair in enumerate(ids)
            ])
            for at in (0, 1)
        )  # fmt: skip
        check = check_outputs(then, now, greedy(reader, ids[0]))
        about = comparison.keys.xs(key)
        arm = f"{about['arm_label']} ({about['dataset']})"
        if check.median_tokens is not None:
            before, since = (f"{tokens:.0f}" for tokens in check.median_tokens)
            lengths.append(f"{arm} {before} then and {since} now")
        if check.identical is not None:
            same.append(f"{arm} {percent(check.identical, sign=False)}")
    if lengths:
        yield f"Tokens of the median answer: {joined(lengths, len(lengths))}."
    if same:
        yield f"Texts that are the same: {joined(same, len(same))}."


def _doubts(ground: Ground, launches: int) -> Iterator[str]:
    if launches < 2:
        yield "One launch each says nothing of how much launches scatter: --repeats 3 measures more."
    apart = max(ground.hours_apart.values(), default=0.0)
    if apart >= _NEAR_HOURS:
        yield (
            f"The two did not take turns: their launches lie up to {apart:,.0f} hours apart, and what "
            "changed on the machine since then counts as the release's; another --results measures both."
        )
