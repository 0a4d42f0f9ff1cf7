"""Published improvements and geometric means, recomputed from their rows.

A column of a section is read by the convention that most of its rows follow (``conventions``); only
what contradicts its row under that convention is flagged.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.matching.comparison import geometric_mean
from analysis.metric_words import read_metric
from analysis.published.claims_file import Row, number, positive
from analysis.published.conventions import NAMED, Convention, Printed, convention_of, gains, told
from analysis.published.printed import Range, exactly, printed
from analysis.verdicts.finding import Figure, Finding, shown
from warehouse.catalogue import Better
from warehouse.errors import InvalidInput

#: What a row's ``concurrency`` says where it is the mean over the levels.
MEAN = ("geomean", "geometric mean", "geometric_mean")


def improvements(rows: Sequence[Row]) -> tuple[list[Finding], list[str]]:
    """Return every printed gain, in order, and a sentence on the convention of each column; two
    whose values are exchanged say so."""
    columns: dict[tuple[str, str, str], list[Printed]] = defaultdict(list)
    read = [(row, one) for row in rows for one in _gains(row)]
    for row, one in read:
        columns[row.section, one.column, one.form].append(one)
    chosen = {key: convention_of(found) for key, found in columns.items()}
    figures = [
        (row, _figure(row, one, chosen[row.section, one.column, one.form])) for row, one in read
    ]
    said = [f"{key[0]}, {key[1]}: {told(columns[key], one)}" for key, one in chosen.items()]
    return [_judge(row, one, figures) for row, one in figures], said


def _gains(row: Row) -> Iterator[Printed]:
    values = tuple(printed(positive(row, name)) for name in ("baseline", "speculative"))
    for name in gains(row.fields):
        yield Printed(name, str(number(row, name)), (values[0], values[1]), better_of(row))


def _figure(row: Row, one: Printed, by: Convention) -> Figure:
    follows = by.follows(one.values, one.better)
    return Figure(
        row.section, row.about, row.name, printed(one.text), follows, by.unit, by.name, one.better
    )


def as_improvement(finding: Finding) -> Finding:
    """Return a printed gain in ``%`` with positive being better, whatever its convention."""
    by, better = NAMED[finding.convention], finding.better
    if better is None or by.name == "improvement":
        return finding
    ends = (finding.published, finding.recomputed, finding.low, finding.high)
    published, recomputed, *span = (by.improvement(value, better) for value in ends)
    return replace(
        finding, published=published, recomputed=recomputed, low=min(span), high=max(span),
        unit="%", convention="improvement",
    )  # fmt: skip


def means(rows: Sequence[Row]) -> list[Finding]:
    """Return every printed mean over the load, for which the file has the levels too."""
    groups: dict[tuple[str, ...], dict[bool, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[_group(row)][_is_mean(row)].append(row)
    return [
        finding
        for group in groups.values()
        for row in group[True]
        for finding in _mean_findings(row, group[False])
    ]


def better_of(row: Row) -> Better:
    """Return the direction of a row's metric. Raises InvalidInput where neither file nor catalogue
    say."""
    told = row.fields.get("better")
    if told in ("higher", "lower"):
        return "higher" if told == "higher" else "lower"
    known = read_metric(row.name)
    if known is None:
        raise InvalidInput(
            f"{row.place}: {row.name!r} is no metric of the catalogue; add better: higher or "
            "better: lower to the row."
        )
    return known.better


def _judge(row: Row, figure: Figure, others: Sequence[tuple[Row, Figure]]) -> Finding:
    if figure.agrees:
        return figure.finding()
    if figure.unit == "%" and figure.printed.scaled(-1).meets(figure.follows):
        loses = (figure.follows.value < 0) == (
            figure.convention != "change" or figure.better == "higher"
        )
        word = "regression" if loses else "improvement"
        return figure.finding(
            f"Its own row is a {word} of {abs(figure.follows.value):.1f} %, printed as "
            f"{shown(figure.printed.value, '%')}: the sign is wrong.",
            "sign",
        )
    for other_row, other in others:
        if other is not figure and _exchanged(figure, other) and _together(row, other_row):
            return figure.finding(
                f"Its own row gives {shown(figure.follows.value, figure.unit)}; the printed "
                f"{shown(figure.printed.value, figure.unit)} is what the {other.metric} row gives: "
                "the two are swapped.",
                "swapped",
            )
    return figure.differs()


def _exchanged(one: Figure, other: Figure) -> bool:
    crosswise = one.printed.meets(other.follows) and other.printed.meets(one.follows)
    return crosswise and not other.agrees


def _together(one: Row, other: Row) -> bool:
    """Return whether two rows stand in one printed table: alike in all but the metric."""
    return (one.section, one.about) == (other.section, other.about)


def _is_mean(row: Row) -> bool:
    return str(row.fields.get("concurrency", "")).strip().casefold() in MEAN


def _group(row: Row) -> tuple[str, ...]:
    about = {name: text for name, text in row.about.items() if name != "concurrency"}
    return (row.section, row.name, *(f"{k}={v}" for k, v in sorted(about.items())))


def _mean_findings(row: Row, levels: Sequence[Row]) -> Iterator[Finding]:
    if len([level for level in levels if "concurrency" in level.fields]) < 2:
        return
    for arm in ("baseline", "speculative"):
        values = [printed(positive(level, arm)) for level in levels]
        follows = _mean(values)
        named = {**row.about, "arm": arm, "levels": str(len(levels))}
        claimed = printed(positive(row, arm))
        figure = Figure(row.section, named, f"geometric mean of {row.name}", claimed, follows, "")
        yield figure.finding() if figure.agrees else figure.differs()


def _mean(values: Sequence[Range]) -> Range:
    found = [
        geometric_mean(ends)
        for ends in ([v.value for v in values], [v.low for v in values], [v.high for v in values])
    ]
    value, low, high = (float("nan") if mean is None else mean for mean in found)
    return Range(value, low, high) if found[1] is not None else exactly(value)
