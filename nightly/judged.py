"""What `draftboard gate --json` said, as a summary keeps it and a message tells it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightly.cells import plain
from warehouse.catalogue import METRICS, percentile_label
from warehouse.nights import Changed, Regression, Verdict

#: Regressions that a summary holds; the verdict counts them all.
MOST = 50


@dataclass(frozen=True)
class Judged:
    """``regressions``: all, the worst first; ``status``: of every series, by its identity."""

    verdict: Verdict
    regressions: tuple[Regression, ...]
    status: dict[str, str]


def read(path: Path) -> Judged | None:
    """The answer of the gate; None where it did not get to one."""
    try:
        said = json.loads(path.read_bytes())
        rows = said["series"]
        worse = [_regression(row) for row in rows if row["status"] == "regression"]
        status = {_name(row): row["status"] for row in rows}
        verdict = _verdict(said["status"], [row["status"] for row in rows])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Judged(verdict, tuple(sorted(worse, key=lambda one: one.improvement)), status)


def identity(one: Regression) -> str:
    """What makes a series the same from night to night."""
    return _name(one.model_dump())


def _name(row: dict[str, Any]) -> str:
    return json.dumps([row["about"], row["metric"], row["statistic"]], sort_keys=True)


def _verdict(status: Any, found: list[str]) -> Verdict:
    return Verdict(
        status=status,
        series=len(found),
        fine=found.count("fine"),
        regressions=found.count("regression"),
        unsettled=found.count("not enough evidence"),
    )


def _regression(row: dict[str, Any]) -> Regression:
    metric = METRICS[row["metric"]]
    chosen = f" {percentile_label(row['statistic'])}" if metric.distribution else ""
    return Regression(
        series=row["series"],
        about=row["about"],
        metric=row["metric"],
        statistic=row["statistic"],
        line=f"{metric.label}{chosen}",
        improvement=row["improvement"],
        low=row["low"],
        high=row["high"],
        budget=row["budget"],
        since=row["first_bad"],
        before=row["last_before"],
        changed=tuple(
            Changed(field=c["field"], before=plain(c["before"]), after=plain(c["after"]))
            for c in row["changed"]
        ),
    )
