"""What speculation is worth as rows of text."""

from collections.abc import Iterator, Sequence

from analysis.money.break_even import BreakEven, Pays, ks_that_pay
from analysis.money.worth import Costed, Worth
from analysis.tables import UNKNOWN, Table, known_text, number


def costs(rows: Sequence[Worth]) -> Table:
    """A row per setting and arm: both costs, where they arise, and the saving."""
    header = [
        "arm", "dataset", "TP", "baseline at", "USD/M", "speculative at", "USD/M", "saved",
        "95 % interval", "throughput is", "basis",
    ]  # fmt: skip
    return header, [
        [
            *_who(row), *_arm(row.baseline), *_arm(row.speculative), _saved(row.saving),
            _interval(row), _verdict(row), row.basis.name,
        ]
        for row in rows
    ]  # fmt: skip


def demands(rows: Sequence[Worth]) -> Table:
    """A row per setting and arm: whole replicas, GPUs, and money by day, month and year."""
    header = [
        "arm", "dataset", "TP", "GPUs", "USD/day", "USD/month", "USD/year", "saved a year",
    ]  # fmt: skip
    return header, [
        [
            *_who(row),
            *(_change(row, name) for name in ("gpus", "usd_per_day", "usd_per_month")),
            _change(row, "usd_per_year"), number(row.usd_saved_per_year, 0),
        ]
        for row in rows
    ]  # fmt: skip


def lines(rows: Sequence[Worth]) -> Iterator[str]:
    """The bases, the break-evens, and what cannot be said and why."""
    yield from dict.fromkeys(f"Basis: {row.basis.sentence}" for row in rows)
    for row in rows:
        name = f"{row.about['arm_label']} on {row.about['dataset'] or UNKNOWN}"
        if row.about["evidence"] not in ("gpu", None):
            yield f"{name}: measured on {row.about['evidence']}, so this is no price of a GPU's work."
        missing = [
            arm
            for arm, side in (("baseline", row.baseline), ("speculative", row.speculative))
            if side is None
        ]
        if missing:
            yield f"{name}: no load of the {' and the '.join(missing)} arm qualifies, so no saving."
        if row.break_even is not None:
            yield f"{name}: {_paid(row.break_even)}"


def pays_table(found: Sequence[Pays]) -> Table:
    """A row per arm and load of ``break_even.pays_at``."""
    header = [
        "arm", "dataset", "TP", "concurrency", "acceptance length", "pays from", "rate needed",
        "pays",
    ]  # fmt: skip
    return header, [
        [
            p.arm_label, known_text(p.dataset), known_text(p.tensor_parallel_size), str(p.concurrency),
            number(p.length, 2), number(p.break_even_length, 2), number(p.break_even_rate, 2),
            "yes" if p.pays else "no",
        ]
        for p in found
    ]  # fmt: skip


def k_lines(found: Sequence[Pays]) -> Iterator[str]:
    """For each setting one line: which of the measured K pay at which load."""
    first = {p.setting: p for p in reversed(found)}
    for setting in dict.fromkeys(p.setting for p in found):
        paying = ks_that_pay(found, setting)
        told = "; ".join(
            f"at {level}: {', '.join(map(str, ks)) or 'none'}" for level, ks in paying.items()
        )
        p = first[setting]
        name = f"{known_text(p.dataset)}, TP {known_text(p.tensor_parallel_size)}"
        if told:
            yield f"K that pays on {name}, by concurrency: {told}."


def _who(row: Worth) -> list[str]:
    told = (row.about["arm_label"], row.about["dataset"], row.about["tensor_parallel_size"])
    return [known_text(value) for value in told]


def _arm(side: Costed | None) -> list[str]:
    if side is None:
        return ["none", UNKNOWN]
    usd = side.usd_per_million
    return [str(side.point.concurrency), f"{usd:,.3f}" if usd < 100 else f"{usd:,.0f}"]


def _saved(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share * 100:+.1f} %"


def _interval(row: Worth) -> str:
    if row.saving_low is None or row.saving_high is None:
        return UNKNOWN
    return f"{row.saving_low * 100:+.1f} to {row.saving_high * 100:+.1f} %"


def _verdict(row: Worth) -> str:
    old, new = row.baseline, row.speculative
    if old is not None and new is not None and old.point.concurrency != new.point.concurrency:
        return "at another load"
    return row.verdict or UNKNOWN


def _change(row: Worth, name: str) -> str:
    values = [
        UNKNOWN if side is None or side.fleet is None else f"{getattr(side.fleet, name):,.0f}"
        for side in (row.baseline, row.speculative)
    ]
    return " → ".join(values)


def _paid(found: BreakEven) -> str:
    spent = f"{found.investment_usd:,.0f} USD"
    if found.hours is None:
        told = "" if found.tokens is None else ": the demand takes as many GPUs either way"
        return f"{spent} are never paid back{told}."
    tokens = UNKNOWN if found.tokens is None else f"{found.tokens / 1e6:,.0f} million output tokens"
    return f"{spent} are paid back after {tokens}, or {found.hours:,.0f} hours."
