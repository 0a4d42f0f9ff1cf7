"""What the gate found, as a comment on a pull request: the verdict, what became worse, the decision."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from answers.wording import markdown

if TYPE_CHECKING:
    from answers.decide.overview import Overview
    from answers.trend.answer import Line, Trend

#: GitHub takes 65,536 letters of a comment; a name may be long.
_MOST_LINES, _MOST_DECISIONS, _LONGEST = 20, 6, 60_000
_HEADER = ("series", "metric", "change", "95 % interval", "budget", "since", "changed with it")
_SIGNS = {"fine": "✅", "regression": "❌", "not enough evidence": "❔"}


def comment(found: "Trend", decided: "Sequence[Overview]") -> str:
    """Return the comment in Markdown. Nothing in a name or a text of a result is markup."""
    parts = [
        f"### {_SIGNS[found.status]} Draftboard: {found.status}",
        f"{markdown(found.headline)}. {markdown(found.summary)}".strip(),
        *_worse([line for line in found.lines if line.status == "regression"]),
        *_decided(decided),
    ]
    return "\n\n".join(parts)[:_LONGEST] + "\n"


def _worse(lines: "Sequence[Line]") -> list[str]:
    if not lines:
        return []
    rows = [_row(_HEADER), "|" + "---|" * len(_HEADER), *map(_cells, lines[:_MOST_LINES])]
    left = len(lines) - _MOST_LINES
    return ["\n".join(rows), *([f"{left:,} more became worse."] if left > 0 else [])]


def _cells(line: "Line") -> str:
    told = (line.name, line.metric, line.change, line.interval, line.budget_text, line.since_text)
    return _row((*told, line.changed_text))


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown, values))} |"


def _decided(decided: "Sequence[Overview]") -> list[str]:
    if not decided:
        return []
    told = [f"**{markdown(one.name)}**\n\n{markdown(one.paragraph)}" for one in decided]
    left = len(told) - _MOST_DECISIONS
    more = [f"{left:,} more: draftboard verdict."] if left > 0 else []
    inside = "\n\n".join([*told[:_MOST_DECISIONS], *more])
    return [
        f"<details><summary>Speculative decoding: the decision</summary>\n\n{inside}\n\n</details>"
    ]
