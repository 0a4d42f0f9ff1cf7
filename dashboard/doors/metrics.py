"""``/metrics``: the newest night of every series, and how ingest and its watcher are (OpenMetrics).

Series are those of the gate: settings with enough nights to be judged.
"""

from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from analysis.nightly.regressions import budgets
from answers.trend.answer import Trend, TrendLine, accepted, watch, watched
from dashboard.doors.addresses import problem_of
from dashboard.shelf import Shelf, ask, open_shelf
from warehouse import annotations, queries
from warehouse.beside import WatchHealth, complaint, read_health
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.storage.cache import is_copy, read_at
from warehouse.storage.current import not_fresh
from warehouse.store import Reader

#: What tells the series of a night apart.
LABELS = (
    "series", "study", "model", "gpu", "arm", "dataset", "metric", "statistic", "unit", "evidence",
)  # fmt: skip


def metrics(_: Request) -> Response:
    """Answer at ``/metrics``; without a warehouse with a problem."""
    try:
        shelf = open_shelf()
        trend = ask(shelf, _nights, annotations.version(shelf.root))
    except DraftboardError as error:
        return problem_of(error)
    families = _Families(shelf, trend, ask(shelf, queries.rejections).num_rows)
    text: bytes = generate_latest(families)  # type: ignore[no-untyped-call]
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _nights(reader: Reader, _noted: str) -> Trend:
    """Return the series that have enough nights. ``_noted``: the version of what people accepted."""
    return watch(watched(reader, Filters()), budgets(()), accepted(reader.root))


class _Families:
    """What is told, as the client library of Prometheus asks a registry for it."""

    def __init__(self, shelf: Shelf, trend: Trend, refusals: int) -> None:
        self._shelf, self._trend, self._refusals = shelf, trend, refusals

    def collect(self) -> Iterator[Metric]:
        root, generation = self._shelf.root, self._shelf.generation
        about = InfoMetricFamily("draftboard", "The software that answers.")
        about.add_metric([], {"version": version("draftboard")})
        yield about
        yield _gauge("generation", "Number of the newest.", generation)
        yield _gauge("refused_files", "Files refused.", self._refusals)
        if is_copy(root):
            # How fresh the copy of a bucket is.
            reached, at = float(not_fresh(root) is None), read_at(root).timestamp()
            yield _gauge("bucket_up", "1: the bucket is in reach.", reached)
            yield _gauge("bucket_read_timestamp_seconds", "When it was read last.", at)
        yield from _of_nights(self._trend.lines)
        try:
            health = read_health(root)
        except DraftboardError:
            # Nobody watches: that is no fault, and no number.
            return
        yield from _of_watcher(health)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"draftboard_{name}", text, value=value)


def _of_nights(lines: tuple[TrendLine, ...]) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"draftboard_night_{name}", text, labels=LABELS)
        for name, text in (
            ("value", "Geometric mean over the newest night, in the unit of its label."),
            ("timestamp_seconds", "When the newest night began."),
            ("change_ratio", "Against the best level before; positive is better."),
            ("regression", "1: shown to be worse than its budget allows."),
        )
    }
    for line in lines:
        series, last = line.assessed.series, line.points[-1]
        names = ("study", "model", "gpu", "arm_label", "dataset")
        facts = [*(series.about.get(name) for name in names), series.metric, series.statistic,
                 series.measure.unit, line.evidence]  # fmt: skip
        labels = [line.name, *("unknown" if fact is None else str(fact) for fact in facts)]
        families["value"].add_metric(labels, last.value)
        families["timestamp_seconds"].add_metric(labels, last.at.timestamp())
        families["regression"].add_metric(labels, float(line.status == "regression"))
        if line.assessed.improvement is not None:
            families["change_ratio"].add_metric(labels, line.assessed.improvement)
    yield from families.values()


def _of_watcher(health: WatchHealth) -> Iterator[Metric]:
    yield _gauge("watcher_up", "1: it reports in time.", float(complaint(health) is None))
    yield _gauge("watcher_waiting_files", "Not yet read.", health.waiting)
    if health.last_pass is not None:
        yield _gauge(
            "watcher_last_pass_timestamp_seconds",
            "When it looked last.",
            health.last_pass.timestamp(),
        )
    files = CounterMetricFamily("draftboard_watcher_files", "Since its start.", labels=["outcome"])
    for outcome in ("accepted", "duplicate", "rejected"):
        files.add_metric([outcome], getattr(health, outcome), created=health.since.timestamp())
    yield files
