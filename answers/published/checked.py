"""A published table that was recomputed, in words: which figures do not follow, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.published.claims import Claims
from analysis.verdicts.finding import Finding
from analysis.verdicts.finding import shown as figure
from answers.published.answer import beside
from answers.published.words import metric_words
from answers.wording import UNKNOWN, badge, between
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

#: Words of keys that are written large.
_SHORT = ("tp", "usd", "gpu")


@dataclass(frozen=True, slots=True)
class Checked:
    """One figure: where it stands, what is printed, and what its own row gives."""

    where: str
    metric: str
    published: str
    follows: str
    flag: str
    why: str
    span: str


@dataclass(frozen=True, slots=True)
class Here:
    """Our own measurement of the same thing."""

    metric: str
    about: str
    published: str
    measured: str
    interval: str
    word: str
    arm: str
    model: str
    gpu: str
    loads: str
    evidence: str


def checked(finding: Finding) -> Checked:
    """Put one figure in words."""
    low, high = (figure(value, finding.unit) for value in (finding.low, finding.high))
    return Checked(
        ", ".join([_words(finding.section), *_about(finding)]), metric_words(finding.metric),
        figure(finding.published, finding.unit), figure(finding.recomputed, finding.unit),
        finding.kind or "follows", finding.reason, low if low == high else f"{low} to {high}",
    )  # fmt: skip


def place(finding: Finding) -> str:
    """Say where a figure stands: ``Output throughput, dataset code, TP 1``."""
    return ", ".join([metric_words(finding.metric), *_about(finding)])


def _about(finding: Finding) -> list[str]:
    return [f"{_words(key)} {value}" for key, value in finding.about.items()]


def _words(name: str) -> str:
    """Write a key of a table as words: ``usd_per_hour`` as ``USD per hour``."""
    words = name.replace("_", " ").split(" ")
    return " ".join(word.upper() if word in _SHORT else word for word in words)


def measured_here(
    reader: Reader, judged: Claims, model: str | None, filters: Filters
) -> tuple[Finding, ...]:
    """Return the figures, each with what the filters show of the same thing; nothing is read of
    models that no figure is about. ``model``: of the claims."""
    asked = _models(judged.findings, model)
    if asked is not None:
        options = queries.filter_options(reader).to_pylist()
        known = {row["value"] for row in options if row["field"] == "model"}
        meant = tuple(sorted(name for name in known if name.strip().casefold() in asked))
        kept = tuple(name for name in meant if not filters.model or name in filters.model)
        if not kept:
            return judged.findings
        filters = replace(filters, model=kept)
    return beside(reader, judged.findings, model, filters)


def _models(findings: Sequence[Finding], model: str | None) -> set[str] | None:
    """Return the models that figures are about; None where one of them does not say."""
    named = {finding.about.get("model", model) for finding in findings}
    return None if None in named else {str(name).strip().casefold() for name in named}


def here(findings: Sequence[Finding]) -> Iterator[Here]:
    """Yield our own measurements that stand beside the figures."""
    for finding in findings:
        for told in finding.measured:
            word = told["word"] or ("over several loads" if len(told["loads"]) > 1 else UNKNOWN)
            yield Here(
                metric_words(finding.metric), ", ".join(_about(finding)), figure(finding.published, finding.unit),
                figure(told["improvement"], "%"), _interval(told["low"], told["high"]), word,
                told["arm"], told["model"] or UNKNOWN, told["gpu"] or UNKNOWN,
                ", ".join(told["loads"]), badge(told["evidence"]) or "GPU",
            )  # fmt: skip


def _interval(low: float | None, high: float | None) -> str:
    return between(low, high, "{:+.1f}".format, " %") or f"{UNKNOWN}: a single launch"
