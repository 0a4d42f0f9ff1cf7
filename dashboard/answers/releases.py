"""How the Trends page draws one release against another."""

import os
from collections.abc import Sequence

import pandas as pd

from analysis.nightly.nights import Series
from answers.trend.answer import names
from answers.trend.releases import Release
from dashboard.answers import Drawing, drawn
from dashboard.answers.trends import badge_of
from dashboard.charts import trends as charts_trends

#: Rows of a forest that can be read without scrolling far.
MOST_ROWS = 40


def forest(found: Release, line: str) -> Drawing | None:
    """The change of one metric line in every series, worst first; None where none has it."""
    known = [
        (effect.improvement, effect)
        for effect in found.effects
        if effect.series.line == line and effect.improvement is not None
    ]
    chosen = [effect for _, effect in sorted(known, key=lambda one: one[0])[:MOST_ROWS]]
    if not chosen:
        return None
    rows = pd.DataFrame(
        {
            "series": _short([effect.series for effect in chosen]),
            "arm": [str(effect.series.about.get("arm_label")) for effect in chosen],
            "value": [effect.improvement for effect in chosen],
            "low": [effect.low for effect in chosen],
            "high": [effect.high for effect in chosen],
            "status": [effect.word for effect in chosen],
        }
    )
    badges = sorted({badge_of(effect.series) for effect in chosen} - {""})
    return drawn(charts_trends.forest(rows, f"{line}{''.join(badges)}"))


def _short(series: Sequence[Series]) -> list[str]:
    """The names without the words that all of them begin with; they have to fit beside a chart."""
    told = [name.split(", ") for name in names(series)]
    alike = len(os.path.commonprefix(told)) if len(told) > 1 else 0
    return [", ".join(words[alike:]) for words in told]
