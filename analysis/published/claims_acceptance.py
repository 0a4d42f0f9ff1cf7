"""Published acceptance, recomputed wherever it stands in a table, and speedups that it cannot explain."""

import re
from collections.abc import Iterator, Sequence

from analysis.metric_words import read_metric
from analysis.published.claims_file import Row, positive
from analysis.published.claims_improvements import better_of
from analysis.published.conventions import NAMED, follows, measures
from analysis.published.printed import Range, printed
from analysis.verdicts.finding import Figure, Finding

_METRICS = {"length": "mean_acceptance_length", "rate": "acceptance_rate"}
#: Fields that say which servers a row is about.
_LABEL = re.compile(
    r"(.*[ _])?(model|method|arm|dataset|task|tp|k|num_speculative_tokens|concurrency|batch[ _]size)"
)
#: Prompts are not drafted, and drafts are not gained from drafts.
_NOT_DRAFTED = ("ttft", "acceptance_rate", "mean_acceptance_length")


def acceptances(rows: Sequence[Row]) -> Iterator[Finding]:
    """Recompute printed lengths and rates: length = 1 + accepted / drafts, 1 + the sum over the
    positions, or 1 + K x rate where every draft has K tokens; rate = accepted / drafted tokens."""
    for row in rows:
        told, about = measures(row.fields), _labels(row) or {"row": str(row.number)}
        for what, given in follows(told).items():
            if what in told:
                figure = Figure(row.section, about, _METRICS[what], told[what], given, "")
                yield figure.finding() if figure.agrees else figure.differs()


def _labels(row: Row) -> dict[str, str]:
    """Return the fields that say which server and load a row is about."""
    return {name: str(v) for name, v in row.fields.items() if _LABEL.fullmatch(name.casefold())}


def beyond_drafts(rows: Sequence[Row], acceptance: Sequence[Row]) -> Iterator[Finding]:
    """Yield the speedups at one request at once that are above the tokens of a step: there a step
    with drafts takes no less time than one without, so something else made the server faster.

    ``acceptance``: the rows that say the tokens of a step, by themselves or of the same server.
    """
    for row in rows:
        named, loads = (
            read_metric(row.name),
            {str(v) for n, v in _labels(row).items() if _is_load(n)},
        )
        if loads == {"1"} and named is not None and named.metric not in _NOT_DRAFTED:
            values = [printed(positive(row, name)) for name in ("baseline", "speculative")]
            speedup = NAMED["factor"].follows(values, better_of(row))
            steps = _steps([row]) or _steps([o for o in acceptance if _same_server(row, o)])
            most = max(steps, key=lambda step: step.high, default=speedup)
            if speedup.low > most.high:
                yield Figure(row.section, row.about, row.name, speedup, most, "x").finding(
                    f"{speedup.value:.2f}x at one request at once is more than the "
                    f"{most.value:.2f} tokens of a step: not from these drafts alone.",
                    "drafts",
                )


def _steps(rows: Sequence[Row]) -> list[Range]:
    """Return the tokens of a step as rows print them, else as they follow."""
    found = [(told, follows(told)) for told in (measures(row.fields) for row in rows)]
    steps = (told.get("length", given.get("length")) for told, given in found)
    return [step for step in steps if step is not None and step.value > 1]


def _is_load(label: str) -> bool:
    return label.casefold().endswith(("concurrency", "batch_size", "batch size"))


def _same_server(one: Row, other: Row) -> bool:
    ours, theirs = _labels(one), _labels(other)
    return all(ours[n] == theirs[n] for n in ours.keys() & theirs.keys() if not _is_load(n))
