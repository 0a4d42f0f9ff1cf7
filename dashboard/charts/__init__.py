"""Charts: pure functions from a small frame, or from answers, to an Altair chart.

Channels are explicit objects: shorthand strings are parsed on every rerun and cost twice as much.
"""

from typing import Any

import altair as alt

from dashboard.charts.axes import title as heading

#: An alt.Chart or alt.LayerChart: Altair's own annotations are too loose for a strict check.
Chart = Any

HEIGHT = 290
#: Zero has no sign.
SIGNED = "datum.value == 0 ? '0 %' : format(datum.value * 100, '+.0f') + ' %'"


def nothing(title: str) -> Chart:
    """Return an empty chart for what is not known: its title says what."""
    blank = alt.Chart(alt.InlineData(values=[{"x": 0}])).mark_point(opacity=0)
    return blank.properties(title=heading(title, "no pair has a value"), height=HEIGHT)
