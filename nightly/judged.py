"""What `draftboard gate --json` said, as a summary keeps it and a message tells it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightly.cells import plain
from warehouse.nights import Changed, Regression, Verdict

#: Regressions that a summary holds; the verdict counts them all.
MOST = 50


@dataclass(frozen=True)
class Drift:
    """A series that drifts downwards ``since`` a night; ``key``: what it is remembered by."""

    key: str
    line: str
    about: dict[str, Any]
    since: str
    said: str


@dataclass(frozen=True)
class Judged:
    """What the gate answered. ``regressions``: all, the worst first; ``status``: of every series,
    by its identity."""

    verdict: Verdict
    regressions: tuple[Regression, ...]
    status: dict[str, str]
    drifts: tuple[Drift, ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """Return what a night's summary keeps of the judgement."""
        return {
            "verdict": self.verdict,
            "regressions": self.regressions[:MOST],
            "drifts": tuple(one.said for one in self.drifts[:MOST]),
        }


def read(path: Path) -> Judged | None:
    """Read the answer of the gate; None where it did not come to one."""
    try:
        said = json.loads(path.read_bytes())
        rows = said["series"]
        worse = [_regression(row) for row in rows if row["status"] == "regression"]
        status = {_name(row): row["status"] for row in rows}
        drifts = [_drift(row) for row in rows if (row.get("drift") or {}).get("total", 0) < 0]
        verdict = _verdict(said["status"], [row["status"] for row in rows])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    worst = tuple(sorted(worse, key=lambda one: one.improvement))
    return Judged(verdict, worst, status, tuple(drifts))


def identity(one: Regression) -> str:
    """Return what makes a series the same from night to night."""
    return _name(one.model_dump())


def _name(row: dict[str, Any]) -> str:
    gain = ["gain"] if row.get("gain") else []
    return json.dumps([row["about"], row["metric"], row["statistic"], *gain], sort_keys=True)


def _verdict(status: Any, found: list[str]) -> Verdict:
    return Verdict(
        status=status,
        series=len(found),
        fine=found.count("fine"),
        regressions=found.count("regression"),
        unsettled=found.count("not enough evidence"),
    )


def _drift(row: dict[str, Any]) -> Drift:
    line, known = row["line"], row["drift"]
    said = f"{row['series']}: {line} {known['said']}"
    return Drift(f"drift {_name(row)}", line, row["about"], known["since"], said)


def _regression(row: dict[str, Any]) -> Regression:
    return Regression(
        series=row["series"],
        about=row["about"],
        metric=row["metric"],
        statistic=row["statistic"],
        line=row["line"],
        gain=row.get("gain"),
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
