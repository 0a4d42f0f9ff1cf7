"""Published acceptance, recomputed wherever it stands in a table, and speedups that it cannot explain."""

import re
from collections.abc import Iterator, Sequence

from analysis.metric_words import read_metric
from analysis.published.acceptance_fields import measures
from analysis.published.claims_file import Row, positive
from analysis.published.claims_improvements import better_of
from analysis.published.conventions import NAMED
from analysis.published.printed import Range, printed
from analysis.verdicts.finding import Figure, Finding

_METRICS = {"length": "mean_acceptance_length", "rate": "acceptance_rate"}
#: Fields that say which servers a row is about.
_LABEL = re.compile(
    r"(.* )?(model|method|arm|dataset|task|tp|k|num speculative tokens|concurrency|batch size)"
)
_LOAD = re.compile(r"(.* )?(concurrency|batch size)")
#: Prompts are not drafted, and drafts are not gained from drafts.
_NOT_DRAFTED = ("ttft", "acceptance_rate", "mean_acceptance_length")


def acceptances(rows: Sequence[Row]) -> list[Finding]:
    """Recompute printed lengths and rates: length = 1 + accepted / drafts, 1 + the sum over the
    positions, or 1 + K x rate where every draft has K tokens; rate = accepted / drafted tokens."""
    return [finding for row in rows for finding in _of_row(row)]


def _of_row(row: Row) -> Iterator[Finding]:
    told = measures(row.fields)
    about = labels(row) or {"row": str(row.number)}
    for what, follows in told.follows().items():
        figure = Figure(row.section, about, _METRICS[what], told.given[what], follows, "")
        yield figure.finding() if figure.agrees else figure.differs()


def labels(row: Row) -> dict[str, str]:
    """Return the fields that say which server and load a row is about."""
    return {n: str(v) for n, v in row.fields.items() if _LABEL.fullmatch(_words(n)) and str(v)}


def _words(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.casefold()).strip()


def beyond_drafts(rows: Sequence[Row], acceptance: Sequence[Row]) -> list[Finding]:
    """Return the speedups at one request at once that are above the tokens of a step: there a step
    with drafts takes no less time than one without, so something else made the server faster.

    ``acceptance``: the rows that say the tokens of a step, by themselves or of the same server.
    """
    return [one for row in rows if _is_alone(row) for one in _beyond(row, acceptance)]


def _is_alone(row: Row) -> bool:
    loads = [str(v).strip() for name, v in row.fields.items() if _LOAD.fullmatch(_words(name))]
    named = read_metric(row.name)
    return loads == ["1"] and named is not None and named.metric not in _NOT_DRAFTED


def _beyond(row: Row, acceptance: Sequence[Row]) -> Iterator[Finding]:
    values = [printed(positive(row, name)) for name in ("baseline", "speculative")]
    speedup = NAMED["factor"].follows(values, better_of(row))
    steps = _steps([row]) or _steps([one for one in acceptance if _same_server(row, one)])
    most = max(steps, key=lambda step: step.high, default=None)
    if most is not None and speedup.low > most.high:
        yield Figure(row.section, row.about, row.name, speedup, most, "x").finding(
            f"{speedup.value:.2f}x at one request at once is more than the {most.value:.2f} tokens "
            "of a step: not from these drafts alone.",
            "drafts",
        )


def _steps(rows: Sequence[Row]) -> list[Range]:
    found = (measures(row.fields).tokens_per_step for row in rows)
    return [step for step in found if step is not None and step.value > 1]


def _same_server(one: Row, other: Row) -> bool:
    ours, theirs = labels(one), labels(other)
    shared = {n for n in ours.keys() & theirs.keys() if not _LOAD.fullmatch(_words(n))}
    return all(ours[name] == theirs[name] for name in shared)
