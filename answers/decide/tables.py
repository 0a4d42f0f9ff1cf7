"""A decision as rows of text, as tiles and as fields of its map: the same for terminals, pages and reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from answers.decide.values import Cell, Decision, Difference, Level
from answers.decide.words import MORE_LAUNCHES, loads_short, settle
from answers.wording import UNKNOWN, interval, known, percent
from warehouse import queries
from warehouse.catalogue import METRICS, percentile_label
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store import Reader

Rows = tuple[list[str], list[list[str]]]
#: What stands where an arm has no gain to tell: at this load nothing is drafted, or the arm was not
#: measured.
NO_DRAFTS, NOT_MEASURED = "no drafts", "not measured"
_NONE = "–"


def summary(decisions: Sequence[Decision]) -> Rows:
    """Return a line per traffic and tensor parallel size: what to do, at which loads, and for
    what."""
    loads = {one.operating_load.short for one in decisions}
    where = f" at {loads.pop()}" if len(loads) == 1 else ""
    header = ["traffic", "TP", "answer", "take", "loads", f"gain{where}", "95 %", "costs", "stake"]
    return header, [_line(one, alone=bool(where)) for one in decisions]


def _line(one: Decision, alone: bool) -> list[str]:
    told = one.operating.difference
    load = "" if alone else f" at {one.operating.load.short}"
    return [
        traffic_short(one), known(one.subject.tensor_parallel_size), one.answer, arm_taken(one),
        words_by_load(one.levels),
        f"{percent(told.improvement)}{load}", interval(told.low, told.high) or "no interval",
        _saved(one), at_stake(one),
    ]  # fmt: skip


def traffic_short(one: Decision) -> str:
    """Return the traffic in a word: ``code``; a mix as ``mix of 3``."""
    return f"mix of {len(one.traffic.mix)}" if one.traffic.mix else one.traffic.name


def arm_taken(one: Decision) -> str:
    """Return the arm to take: ``draft_model K=5``; ``draft_model K=5/3/2`` where K follows the
    load; ``none`` with the best arm, or the one that breaks answers, where nothing is to be drafted."""
    if not one.operating.drafts:
        broken = any(cell.broken for cell in one.arms if cell.arm == one.arm)
        return f"none ({one.arm} breaks answers)" if broken else f"none (best: {one.arm})"
    if one.table is None or one.k_kind != "table":
        return one.arm
    ks = dict.fromkeys(k for _, _, k in one.table)
    return f"{one.method} K={'/'.join(map(str, ks))}"


def arm_at(one: Decision) -> str:
    """Return the arm that is served at the operating load; ``none`` where nothing is drafted."""
    return one.operating.arm if one.operating.drafts else "none"


def words_by_load(levels: Sequence[Level]) -> str:
    """Return what the decision's server does at the loads, ``likely gain 1, 4; open 16``, and where
    another arm is better what that does, ``dspark K=7: gain 1, 8``: neighbouring loads of one word
    together."""
    grouped = groupby(levels, _word)
    return "; ".join(f"{word} {loads_short([x.load for x in part])}" for word, part in grouped)


def _word(level: Level) -> str:
    if level.served is not None:
        return f"{level.arm}: {level.difference.word}"
    own = level.own
    return (NOT_MEASURED if level.drafts else NO_DRAFTS) if own is None else own.word


def _saved(one: Decision) -> str:
    return UNKNOWN if one.saving is None else percent(-one.saving.per_output_token)


def at_stake(one: Decision) -> str:
    """Write what is at stake: ``13.9 %``; unknown where nothing repeats."""
    return percent(one.at_stake, sign=False) if one.at_stake is not None else UNKNOWN


def size(told: Difference) -> str:
    """Write an improvement with its interval: ``+11.6 % (+1.6 to +39.6 %)``."""
    ends = interval(told.low, told.high)
    return f"{percent(told.improvement)} ({ends})" if ends else percent(told.improvement)


def by_load(one: Decision) -> Rows:
    """Return the load map: what the decision's server drafts at each load and what that brings; the
    best arm where nothing is drafted, and arms that are better than the server."""
    header = ["load", "K", "gain", "certainty", "launches", "in"]
    lines = [_level(level) for level in one.levels]
    better = [_better(level) for level in one.levels]
    if any(level.served is not None for level in one.levels):
        header, lines = (
            [*header, "better there"],
            [[*a, b] for a, b in zip(lines, better, strict=True)],
        )
    return header, lines


def _level(level: Level) -> list[str]:
    told, named = level.own, level.served is not None
    launches = level.launches if level.served is None else level.served.launches
    if level.drafts:
        figures = [NOT_MEASURED, _NONE] if told is None else [size(told), told.word]
    elif named:
        figures = ["as the baseline", _NONE]
    else:
        figures = [f"left on, {level.arm}: {size(level.difference)}", level.difference.word]
    return [
        level.load.text,
        _k_of(level),
        *figures,
        str(launches or _NONE),
        line_name(level.difference),
    ]


def _better(level: Level) -> str:
    """Name the arm that is better than the decision's server at a load."""
    if level.served is None:
        return _NONE
    return f"{level.arm} {percent(level.difference.improvement)}, {level.difference.word}"


def _k_of(level: Level) -> str:
    """Write the number of draft tokens of the decision's server: ``3``, ``no drafts``; ``engine``
    where the engine chooses."""
    k, kind = level.num_speculative_tokens, level.k_kind
    if level.served is not None:
        k, kind = level.served.num_speculative_tokens, level.served.k_kind
    if k is None:
        return UNKNOWN if kind == "unknown" else "engine"
    return str(k) if k else NO_DRAFTS


def taken(level: Level) -> str:
    """Return what the decision's server does at a load: ``draft_model K=5 (+11.8 %)``; ``no drafts``,
    and which arm is better there."""
    if not level.drafts:
        mine = NO_DRAFTS
    else:
        arm = level.arm if level.served is None else level.served.arm
        mine = f"{arm} ({percent(level.own.improvement) if level.own else NOT_MEASURED})"
    return f"{mine}; better there: {_better(level)}" if level.served is not None else mine


def line_name(told: Difference) -> str:
    """Return the name of the metric behind a difference: ``Output throughput``, ``TTFT P95``."""
    metric = METRICS[told.metric]
    return (
        f"{metric.label} {percentile_label(told.statistic)}"
        if metric.distribution
        else metric.label
    )


def by_arm(one: Decision) -> Rows:
    """Return every arm at every load; ``take`` marks what the decision takes."""
    header = ["load", "arm", "gain", "certainty", "launches", ""]
    return header, [_cell(cell) for cell in sorted(one.arms, key=lambda x: x.load.order)]


def _cell(cell: Cell) -> list[str]:
    told = cell.difference
    mark = "take" if cell.taken else "breaks answers" if cell.broken else ""
    return [cell.load.text, cell.arm, size(told), told.word, str(cell.launches), mark]


def doubts(one: Decision) -> Iterator[str]:
    """Yield what to keep in mind, what would settle it and what was left out, a sentence each."""
    yield from one.doubts
    yield from settle(one.settle)


def table_notes(one: Decision) -> Iterator[str]:
    """Say what a reader has to know before pasting the table of K."""
    if one.table is None:
        return
    loads = [level.load.short for level in one.levels]
    yield f"Measured at {', '.join(loads)}: vLLM goes on with the last K above."
    yield "vLLM ignores the table where data parallelism is used."
    if any(k == 0 for _, _, k in one.table):
        yield "K = 0 was measured on a server without a draft; here the draft stays in memory."


def left_out(one: Decision) -> Iterator[str]:
    """Return the cells that decide nothing, and why."""
    return (f"{cell.cell}: {cell.why}" for cell in one.excluded)


def entries(one: Decision) -> str | None:
    """Return the table of K by batch size as vLLM takes it."""
    if one.table is None:
        return None
    told = ", ".join(f"[{start}, {end}, {k}]" for start, end, k in one.table)
    return f"num_speculative_tokens_per_batch_size: [{told}]"


def nothing_to_paste(one: Decision) -> str:
    """Say why there are no flags to paste; empty where there are."""
    if one.config is not None:
        return ""
    if one.answer == "no":
        return "Nothing to paste: serve without speculation."
    if not one.operating.drafts:
        return "Nothing to paste: no arm is shown to beat the baseline."
    if one.answer == "open":
        once = "" if one.at_stake is not None else f" {MORE_LAUNCHES}"
        return f"Nothing to paste while nothing is settled; --arm {one.arm!r} gives its line.{once}"
    return "What to paste is not known: the results do not say which method drafted how much."


# --- What the choice is worth at the operating load, in figures.


@dataclass(frozen=True)
class Tile:
    """A figure with its name, and what it must be read with."""

    label: str
    value: str
    note: str


def tiles(one: Decision) -> tuple[Tile, ...]:
    """Return three figures: the gain and the saving, each with its word and interval, and what is
    at stake."""
    load, gain = one.operating.load.text, one.operating.difference
    sure = _sure(gain.low, gain.high)
    return (
        Tile(f"{line_name(gain)} at {load}", percent(gain.improvement), f"{gain.word}; {sure}"),
        _saving(one, load),
        Tile("At stake in the choice", at_stake(one), "what another K or method may still bring"),
    )


def _saving(one: Decision, load: str) -> Tile:
    label, saving = f"Cost of an output token at {load}", one.saving
    if not one.operating.drafts:
        return Tile(label, "as the baseline", "nothing is drafted there")
    if saving is None:
        return Tile(label, UNKNOWN, "known only where throughput decides")
    low, high = saving.low, saving.high
    sure = _sure(None if high is None else -high, None if low is None else -low)
    return Tile(label, percent(-saving.per_output_token), f"{saving.word}, same hardware; {sure}")


def _sure(low: float | None, high: float | None) -> str:
    """Write the 95 % interval, or that one launch gives none."""
    ends = interval(low, high)
    return f"95 %: {ends}" if ends else "one launch: no interval"


# --- The map of loads and arms field by field, and the cells behind a field.


@dataclass(frozen=True)
class Field:
    """One arm at one load, or the choice to draft nothing there (then ``difference`` is None).
    ``taken``: the decision takes it; ``cells``: ids of the cells behind it."""

    load: Load
    arm: str
    taken: bool
    difference: Difference | None
    launches: int
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        """What a reader calls the field: ``ngram K=3 at 16 at once``."""
        return f"{self.arm} at {self.load.text}"


@dataclass(frozen=True)
class Behind:
    """A cell behind a field. ``cell``: its id."""

    cell: str
    arm: str
    repeat: int | None
    completed: int | None
    errored: int | None
    flags: int
    run: str


def fields(one: Decision) -> tuple[Field, ...]:
    """Return every field: the choice to draft nothing first, then the arms by method and K."""
    order = sorted(one.arms, key=lambda c: (c.method, c.num_speculative_tokens or 0, c.arm))
    return (*_without_drafts(one), *map(_field, order))


def _field(cell: Cell) -> Field:
    cells = tuple(new for _, new in cell.pairs)
    return Field(cell.load, cell.arm, cell.taken, cell.difference, cell.launches, cells)


def _without_drafts(one: Decision) -> tuple[Field, ...]:
    """Return a field for drafting nothing at each load, taken where the decision takes no arm."""
    idle = {level.load for level in one.levels if not level.drafts}
    found: dict[Load, dict[str, None]] = {}
    for cell in one.arms:
        found.setdefault(cell.load, {}).update((old, None) for old, _ in cell.pairs)
    return tuple(
        Field(load, NO_DRAFTS, load in idle, None, 0, tuple(cells)) for load, cells in found.items()
    )


def behind(reader: Reader, cells: tuple[str, ...]) -> tuple[Behind, ...]:
    """Return the cells of these ids."""
    rows = queries.cells(reader, Filters()).select(
        ["cell_id", "arm_label", "repeat", "completed", "errored", "flags", "run_id"]
    )
    wanted = set(cells)
    return tuple(Behind(*row.values()) for row in rows.to_pylist() if row["cell_id"] in wanted)
