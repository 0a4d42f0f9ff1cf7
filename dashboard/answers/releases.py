"""What the Trends page says of one release against another."""

import os
from collections.abc import Sequence

import pandas as pd

from analysis.nightly.regressions import Assessment
from analysis.nightly.run_chart import moved
from dashboard.answers import Drawing, drawn
from dashboard.answers.trends import badge_of, counted_series, series_names
from dashboard.charts import trends as charts_trends

#: Rows of a forest that can be read without scrolling far.
MOST_ROWS = 40


def headline(found: Sequence[Assessment], before: str, after: str) -> str:
    """What the newer of two releases did to all series."""
    if not found:
        return f"No series was measured with both {before} and {after}."
    worse = sum(moved(one) and one.high < 0 for one in found)
    better = sum(moved(one) and one.low > 0 for one in found)
    rest = len(found) - worse - better
    return (
        f"{after} against {before}: {better} better, {worse} worse and {rest} without a clear "
        f"difference, of {counted_series(len(found))}."
    )


def forest(found: Sequence[Assessment], line: str) -> Drawing | None:
    """The change of one metric line in every series, worst first; None where none has it."""
    chosen = [one for one in found if one.line == line and one.improvement == one.improvement]
    chosen = sorted(chosen, key=lambda one: one.improvement)[:MOST_ROWS]
    if not chosen:
        return None
    rows = pd.DataFrame(
        {
            "series": _short(chosen),
            "arm": [str(one.series.about.get("arm_label")) for one in chosen],
            "value": [one.improvement for one in chosen],
            "low": [one.low for one in chosen],
            "high": [one.high for one in chosen],
            "status": [one.status for one in chosen],
        }
    )
    badges = sorted({badge_of(one) for one in chosen} - {""})
    return drawn(charts_trends.forest(rows, f"{line}{''.join(badges)}"))


def _short(found: Sequence[Assessment]) -> list[str]:
    """The names without the words that all of them begin with; they have to fit beside a chart."""
    names = [name.split(", ") for name in series_names(found)]
    alike = len(os.path.commonprefix(names)) if len(names) > 1 else 0
    return [", ".join(words[alike:]) for words in names]
