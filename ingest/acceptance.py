"""Which of several counts of a cell's acceptance is shown, and what the others say about it."""

from dataclasses import replace

from analysis.drafts.acceptance import cross_check
from analysis.flags.lints import lint
from warehouse.rows import Acceptance, Cell, Flag, Measurement

_ORDER = ("counters", "requests", "vllm_bench")
_METRICS = ("acceptance_rate", "mean_acceptance_length")


def finished(cell: Cell) -> Cell:
    """Return the cell with its best acceptance among the measurements and with all flags."""
    counts = tuple(sorted(cell.acceptance, key=lambda a: _ORDER.index(a.source)))
    cell = replace(
        cell,
        acceptance=counts,
        measurements=(*_others(cell), *_best(counts)),
        flags=(*cell.flags, *cross_check(counts)),
    )
    return replace(cell, flags=_unique((*cell.flags, *lint(cell))))


def _others(cell: Cell) -> tuple[Measurement, ...]:
    return tuple(
        m for m in cell.measurements if not (m.origin == "canonical" and m.metric in _METRICS)
    )


def _best(counts: tuple[Acceptance, ...]) -> tuple[Measurement, ...]:
    usable = [a for a in counts if a.drafts or a.rate is not None]
    if not usable:
        return ()
    values = zip(_METRICS, (usable[0].rate, usable[0].mean_length), strict=True)
    return tuple(
        Measurement("canonical", metric, "mean", value)
        for metric, value in values
        if value is not None
    )


def _unique(flags: tuple[Flag, ...]) -> tuple[Flag, ...]:
    """Keep each flag once: a format and a lint may raise the same doubt."""
    return tuple(dict.fromkeys(flags))
