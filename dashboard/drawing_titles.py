"""What a chart is called where it is offered as a file."""

from collections.abc import Sequence

from dashboard.charts.spec import Drawing


def titled(drawings: Sequence[Drawing]) -> dict[str, Drawing]:
    """Return title -> chart, in order; a title that occurs twice is numbered."""
    found: dict[str, Drawing] = {}
    for number, drawing in enumerate(drawings, 1):
        title = str(drawing["title"]["text"])
        found[title if title not in found else f"{title} ({number})"] = drawing
    return found
