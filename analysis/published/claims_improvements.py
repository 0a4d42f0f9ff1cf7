"""Published improvements, geometric means and acceptance lengths, recomputed from their rows.

A table prints either improvements (positive is better) or changes (a latency that falls by a fifth
is −20 %). A section of a file is read by the convention that more of its rows follow.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.matching.improvement import geometric_mean, improvement
from analysis.metric_words import read_metric
from analysis.published.claims_file import Row, number, positive
from analysis.published.printed import Range, exactly, printed, propagated
from analysis.verdicts.finding import Figure, Finding, shown
from warehouse.catalogue import Better
from warehouse.errors import InvalidInput

#: What a row's ``concurrency`` says where it is the mean over the levels.
MEAN = ("geomean", "geometric mean", "geometric_mean")


def improvements(rows: Sequence[Row]) -> list[Finding]:
    """Return every row with a printed improvement, in order; two whose values are exchanged say
    so."""
    figures = [(row, _figure(row)) for row in rows if "published_pct" in row.fields]
    of_changes = _sections_of_changes(figures)
    figures = [
        (row, replace(one, printed=one.printed.scaled(-1)) if _falls(row, of_changes) else one)
        for row, one in figures
    ]
    return [_judge(row, one, figures, _falls(row, of_changes)) for row, one in figures]


def _sections_of_changes(figures: Sequence[tuple[Row, Figure]]) -> set[str]:
    """Return the sections whose latencies are printed as changes: more rows print a fall with a
    minus than print it as an improvement."""
    votes: Counter[str] = Counter()
    for row, one in figures:
        if better_of(row) == "lower" and one.follows.low > 0:
            votes[row.section] += one.printed.scaled(-1).meets(one.follows) - one.agrees
    return {section for section, more in votes.items() if more > 0}


def _falls(row: Row, of_changes: set[str]) -> bool:
    """Return whether the row's figure is a change of something of which less is better."""
    return row.section in of_changes and better_of(row) == "lower"


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


def acceptances(rows: Sequence[Row]) -> list[Finding]:
    """Compare each mean acceptance length with 1 + K x rate, which holds where every draft has K
    tokens."""
    found = []
    for row in rows:
        k = float(positive(row, "num_speculative_tokens"))
        rate = printed(number(row, "acceptance_rate"))
        length = printed(number(row, "mean_acceptance_length"))
        follows = propagated(lambda r, k=k: 1 + k * r, rate)
        about = {"num_speculative_tokens": f"{k:g}"}
        figure = Figure(row.section, about, "mean_acceptance_length", length, follows, "")
        found.append(figure.finding() if figure.agrees else figure.differs())
    return found


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


def _figure(row: Row) -> Figure:
    direction = better_of(row)
    values = (printed(positive(row, name)) for name in ("baseline", "speculative"))
    follows = propagated(lambda old, new: _percent(old, new, direction), *values)
    claimed = printed(number(row, "published_pct"))
    return Figure(row.section, row.about, row.name, claimed, follows, "%")


def _percent(old: float, new: float, direction: Better) -> float:
    value = improvement(old, new, direction)
    return float("nan") if value is None else 100 * value


def _judge(
    row: Row, figure: Figure, others: Sequence[tuple[Row, Figure]], as_change: bool
) -> Finding:
    if figure.agrees:
        if not as_change:
            return figure.finding()
        printed_as = shown(-figure.printed.value, "%")
        return figure.finding(f"Follows from its own row: printed as a change of {printed_as}.")
    if figure.printed.scaled(-1).meets(figure.follows):
        word = "regression" if figure.follows.value < 0 else "improvement"
        return figure.finding(
            f"Its own row is a {word} of {abs(figure.follows.value):.1f} %, printed as "
            f"{shown(figure.printed.value, '%')}: the sign is wrong.",
            "sign",
        )
    for other_row, other in others:
        if other is not figure and _exchanged(figure, other) and _together(row, other_row):
            return figure.finding(
                f"Its own row gives {shown(figure.follows.value, '%')}; the printed "
                f"{shown(figure.printed.value, '%')} is what the {other.metric} row gives: "
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
