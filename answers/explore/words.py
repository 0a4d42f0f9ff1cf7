"""What a free chart says: its headline, the best of a panel, and what could not be drawn."""

from collections.abc import Sequence
from datetime import datetime

from answers.compare.values import counted, metric_name
from answers.explore.values import EACH, Amount, Key, Mark, Marks, Panel, Pick, Place
from answers.wording import badges, bracketed
from warehouse.catalogue import METRICS

#: More series than this cannot be told apart.
MOST_SERIES = 12
#: More marks than this make a chart slow and say no more.
MOST_MARKS = 5000


def headline(panels: Sequence[Panel], pick: Pick) -> str:
    """Say what is drawn, and the best value only where all marks are of one subject."""
    label = metric_name(pick.y.metric, pick.y.statistic)
    if not panels:
        return f"{label}: unknown for every cell that the filters keep"
    if len(panels) == 1 and one_subject(panels[0].marks):
        return f"{label}: {panels[0].answer}"
    marks = [mark for panel in panels for mark in panel.marks]
    told = f"{counted(len({mark.subject for mark in marks}), 'setting')}, each for itself"
    if any(mark.subjects > 1 for mark in marks):
        told = "a mark pools several settings, so none is the best"
    return f"{label} over {axis_title(pick.x)}: {told}"


def one_subject(marks: Sequence[Mark]) -> bool:
    """Whether the marks are of one model, hardware, dataset and size, so that one can be the best."""
    return len({mark.subject for mark in marks}) == 1 and all(m.subjects == 1 for m in marks)


def answer(marks: Sequence[Mark], pick: Pick) -> str:
    """Say the best value, or the span of a number that has no better direction."""
    if not one_subject(marks):
        return "settings that cannot be pooled, so none is the best"
    metric = METRICS[pick.y.metric]
    low, high = min(marks, key=lambda mark: mark.y), max(marks, key=lambda mark: mark.y)
    if metric.better == "neither":
        return f"{amount(pick.y, low.y)} to {amount(pick.y, high.y)} {metric.unit}"
    best = high if metric.better == "higher" else low
    where = f"{_named(pick.series, best.series)}, {_at(best.x, pick.x)}"
    return f"best {amount(pick.y, best.y)} {metric.unit}, {where}"


def _named(key: Key, value: str) -> str:
    """Name a key's value: ``eagle3 K=5`` as it is, a number with the key before it."""
    return f"{key.label.lower()} {value}" if key.kind == "number" else value


def _at(x: Place, along: Key | Amount) -> str:
    if isinstance(along, Amount) and isinstance(x, float | int):
        metric = METRICS[along.metric]
        name = metric_name(along.metric, along.statistic)
        return f"{name} {amount(along, x)} {metric.unit}"
    if isinstance(x, datetime):
        return f"{x:%Y-%m-%d %H:%M} UTC"
    return f"{axis_title(along)} {x:g}" if isinstance(x, float | int) else str(x)


def amount(what: Amount, value: float) -> str:
    """Write a value in the metric's decimals."""
    return f"{value:,.{METRICS[what.metric].decimals}f}"


def too_many(number: int) -> str:
    """Say that not all marks are drawn; empty where they are."""
    if number <= MOST_MARKS:
        return ""
    return f"The first {MOST_MARKS:,} of {number:,} marks are drawn; choose filters."


def unplaced(number: int, pick: Pick) -> str:
    """Say how many marks cannot be drawn, since a value of theirs is unknown; empty for none."""
    if not number:
        return ""
    return f"{counted(number, 'mark')} without a known {axis_title(pick.x)} or value not drawn."


def left_out(known: Sequence[Mark], drawn: Sequence[Mark], what: str) -> str:
    """Say how many panels or series are not drawn; empty for none."""
    there, here = (len({getattr(mark, what) for mark in marks}) for marks in (known, drawn))
    if there <= here:
        return ""
    name = {"panel": "panels", "series": "lines"}[what]
    return f"{here} of {there:,} {name} are drawn, those with most marks; choose filters."


def pooled(marks: Sequence[Mark]) -> str:
    """Say that marks pool unlike cells, lest one looks like a repeat; nothing where none does."""
    most = max((mark.settings for mark in marks), default=1)
    if most == 1:
        return ""
    return (
        f"A mark pools cells of up to {most} different settings (model, hardware, dataset, arm, "
        "load): choose filters or panels before you compare."
    )


def badges_of(marks: Sequence[Mark]) -> tuple[str, ...]:
    """Return the badges of all that is drawn."""
    kinds = {kind for mark in marks for kind in mark.evidence.split(", ")}
    by_hand = any(mark.synthetic for mark in marks)
    return tuple(sorted({text for kind in kinds for text in badges(kind, by_hand)}))


def axis_title(x: Key | Amount) -> str:
    """Return what stands along the x axis, with its unit."""
    if isinstance(x, Amount):
        return f"{metric_name(x.metric, x.statistic)}, {METRICS[x.metric].unit}"
    return x.label if x.label.isupper() else x.label[:1].lower() + x.label[1:]


def titles(found: Marks, pick: Pick) -> tuple[str, ...]:
    """Return a title for each panel, with the badges: what tells it from the other panels, else its
    name."""
    metric = METRICS[pick.y.metric]
    badges = bracketed(*found.badges)
    if pick.panel is None:
        return (f"{metric_name(pick.y.metric, pick.y.statistic)}, {metric.unit}{badges}",)
    return tuple(f"{name}{badges}" for name in _apart([panel.name for panel in found.panels]))


def _apart(names: Sequence[str]) -> list[str]:
    """Return the names without the parts that all of them have in the same place."""
    parts = [name.split(", ") for name in names]
    if len(names) == 1 or len({len(one) for one in parts}) > 1:
        return list(names)
    differ = [at for at, column in enumerate(zip(*parts, strict=True)) if len({*column}) > 1]
    return [", ".join(one[at] for at in differ) for one in parts]


def subtitle(panel: Panel, pick: Pick) -> tuple[str, ...]:
    """Return two lines: the panel's answer, and what is drawn."""
    metric = METRICS[pick.y.metric]
    what = f"{metric_name(pick.y.metric, pick.y.statistic)}, {metric.unit}"
    how = "each cell" if pick.how == EACH else f"{pick.how} of the cells"
    return panel.answer, f"{what}; {how}"


def alternative(panel: Panel, pick: Pick) -> str:
    """Describe a panel in words for somebody who does not see its chart."""
    metric = METRICS[pick.y.metric]
    values = [mark.y for mark in panel.marks]
    series = ", ".join(sorted({mark.series for mark in panel.marks}))
    return (
        f"{metric_name(pick.y.metric, pick.y.statistic)} in {metric.unit} over "
        f"{axis_title(pick.x)}{f', {panel.name}' if pick.panel else ''}: "
        f"{counted(len(values), 'mark')} of {series}, from {amount(pick.y, min(values))} to "
        f"{amount(pick.y, max(values))}; {panel.answer}. The cells stand in the table below."
    )
