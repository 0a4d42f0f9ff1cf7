"""``/metrics``: the newest night of every series, and how ingest and its watcher are (OpenMetrics).

Series are those of the gate: settings with enough nights to be judged.
"""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from analysis.nightly.regressions import budgets
from answers.trend import read
from answers.trend.answer import Line, Trend, watch
from dashboard.api.problems import refused
from dashboard.shelf import Shelf, ask, open_shelf
from warehouse import annotations, queries
from warehouse.beside import WatchHealth, complaint, read_health
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.store import Reader
from warehouse.store_cache import is_copy, read_at
from warehouse.store_current import not_fresh

#: What tells the series of a night apart.
LABELS = (
    "series", "study", "model", "gpu", "arm", "dataset", "metric", "statistic", "unit", "evidence",
)  # fmt: skip


def metrics(_: Request) -> Response:
    """Answer at ``/metrics``; without a warehouse with a problem."""
    try:
        shelf = open_shelf()
        found = ask(shelf, _nights, annotations.version(Path(shelf.root)))
        refusals = ask(shelf, _refusals)
    except DraftboardError as error:
        return refused(error)
    registry = CollectorRegistry()
    registry.register(_Told(shelf, found, refusals))
    told: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return Response(told, media_type=CONTENT_TYPE_LATEST)


def _nights(reader: Reader, noted: str) -> Trend:
    """Return the series that have enough nights. ``noted``: the version of what people accepted."""
    del noted
    return watch(read.watched(reader, Filters()), budgets(()), read.accepted(reader.root))


def _refusals(reader: Reader) -> int:
    return int(queries.rejections(reader).num_rows)


class _Told(Collector):
    """What is told, as the client library of Prometheus asks for it."""

    def __init__(self, shelf: Shelf, found: Trend, refusals: int) -> None:
        self._shelf, self._found, self._refusals = shelf, found, refusals

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        about = InfoMetricFamily("draftboard", "The software that answers.")
        about.add_metric([], {"version": version("draftboard")})
        yield about
        number, refusals = self._shelf.generation, self._refusals
        yield GaugeMetricFamily("draftboard_generation", "Number of the newest.", value=number)
        yield GaugeMetricFamily("draftboard_refused_files", "Files refused.", value=refusals)
        yield from _of_bucket(Path(self._shelf.root))
        yield from _of_nights(self._found.lines)
        try:
            health = read_health(Path(self._shelf.root))
        except DraftboardError:
            # Nobody watches: that is no fault, and no number.
            return
        yield from _of_watcher(health)


def _of_bucket(root: Path) -> Iterator[Metric]:
    """Yield how fresh the copy of a bucket is; nothing for a folder."""
    if not is_copy(root):
        return
    reached, at = float(not_fresh(root) is None), read_at(root).timestamp()
    yield GaugeMetricFamily("draftboard_bucket_up", "1: the bucket is in reach.", value=reached)
    yield GaugeMetricFamily(
        "draftboard_bucket_read_timestamp_seconds", "When it was read last.", value=at
    )


def _of_nights(lines: tuple[Line, ...]) -> Iterator[Metric]:
    value = _gauge("value", "Geometric mean over the newest night, in the unit of its label.")
    at = _gauge("timestamp_seconds", "When the newest night began.")
    change = _gauge("change_ratio", "Against the best level before; positive is better.")
    worse = _gauge("regression", "1: shown to be worse than its budget allows.")
    for line in lines:
        labels, last = _labels(line), line.points[-1]
        value.add_metric(labels, last.value)
        at.add_metric(labels, last.at.timestamp())
        worse.add_metric(labels, float(line.status == "regression"))
        if line.improvement is not None:
            change.add_metric(labels, line.improvement)
    yield from (value, at, change, worse)


def _gauge(name: str, said: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"draftboard_night_{name}", said, labels=LABELS)


def _labels(line: Line) -> list[str]:
    series = line.assessed.series
    facts = (series.about.get(name) for name in ("study", "model", "gpu", "arm_label", "dataset"))
    known = (*facts, series.metric, series.statistic, series.measure.unit, line.evidence)
    return [line.name, *("unknown" if one is None else str(one) for one in known)]


def _of_watcher(health: WatchHealth) -> Iterator[Metric]:
    up = float(complaint(health) is None)
    yield GaugeMetricFamily("draftboard_watcher_up", "1: it reports in time.", value=up)
    waiting = health.waiting
    yield GaugeMetricFamily("draftboard_watcher_waiting_files", "Not yet read.", value=waiting)
    if health.last_pass is not None:
        at = health.last_pass.timestamp()
        yield GaugeMetricFamily(
            "draftboard_watcher_last_pass_timestamp_seconds", "When it looked last.", value=at
        )
    files = CounterMetricFamily("draftboard_watcher_files", "Since its start.", labels=["outcome"])
    for outcome in ("accepted", "duplicate", "rejected"):
        files.add_metric([outcome], getattr(health, outcome), created=health.since.timestamp())
    yield files
