"""Writes docs/definitions.md from the metric catalogue: ``python docs/make_definitions.py``."""

from pathlib import Path

from warehouse.catalogue import METRICS, PERCENTILES, Metric, percentile_label

TARGET = Path(__file__).with_name("definitions.md")
HEAD = """# Definitions

Made from `warehouse/catalogue.py` by `python docs/make_definitions.py`; change it there. Values are stored in
these units. Ratios are 0-1. Unknown is empty, never zero. A report with a value that is not possible is
rejected; one beyond what is usual is taken in with the flag `beyond_usual`.

| key | name | unit | better | statistics | possible | usual up to | definition |
|---|---|---|---|---|---|---|---|
"""
TAIL = """
## Words

- **Measured window**: the run without warm-up and cool-down. Where the report names none, or one that outlives them, from the first
  request's start to the last one's end.
- **Percentiles** ({percentiles}) are by nearest rank: a value that occurred, never one between two. Those of
  `itl` and `tpot` are weighted by tokens.
- **Canonical** values follow the definitions above, recomputed from the requests; **reported** ones are
  what the report said.
- **Acceptance by position**: accepted draft tokens at position i / drafts, i from 0. Conditional acceptance at
  i is that of i divided by that of i - 1.
- **Draft**: one proposal of the drafter, up to K tokens, verified in one step of the target.
- **Improvement**: [compare.md](compare.md).
"""


def row(metric: Metric) -> str:
    """One line of the table."""
    statistics = "mean, percentiles" if metric.distribution else "mean"
    possible = f"{metric.lowest:g} to {metric.highest:,.10g}"
    usual = f"{metric.doubtful:,.10g}" if metric.doubtful < metric.highest else ""
    named = (f"`{metric.key}`", metric.label, metric.unit, metric.better)
    cells = (*named, statistics, possible, usual)
    return "| " + " | ".join((*cells, metric.definition)) + " |\n"


def definitions() -> str:
    """The whole page as Markdown."""
    percentiles = ", ".join(percentile_label(name) for name in PERCENTILES)
    rows = "".join(row(metric) for metric in METRICS.values())
    return HEAD + rows + TAIL.format(percentiles=percentiles)


if __name__ == "__main__":
    TARGET.write_text(definitions(), encoding="utf-8")
