"""A report as values: words, tables and figures, before they become a page."""

from dataclasses import dataclass

from analysis.money.paying import Paying
from answers.compare.values import Line, Setting
from answers.decide.values import Decision, Question


@dataclass(frozen=True)
class Wanted:
    """What a report is asked for. ``subject``: an overview's name, None for the first; ``link``: the
    address of the same view, empty if there is none; ``tokens_per_day``: a demand in output tokens,
    None for none."""

    question: Question
    subject: str | None = None
    paying: Paying = Paying()
    tokens_per_day: float | None = None
    link: str = ""


@dataclass(frozen=True)
class Grid:
    """A table as text; ``right``: the columns with numbers; ``more``: rows that are not printed."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    more: int = 0


@dataclass(frozen=True)
class Map:
    """The heat map of a decision."""

    decision: Decision

    @property
    def alternative(self) -> str:
        """What somebody who does not see the map is told."""
        return (
            f"{self.decision.traffic.name}: expected improvement by load and arm; the values stand "
            "in the tables."
        )


@dataclass(frozen=True)
class Curve:
    """A line of a setting over the load, one arm in colour beside the reference."""

    setting: Setting
    line: Line
    arm: str
    reference: str
    title: str

    @property
    def alternative(self) -> str:
        """What somebody who does not see the curve is told."""
        return f"{self.title} over the load on {self.setting.name}, {self.arm} in colour."


Figure = Map | Curve


@dataclass(frozen=True)
class Section:
    """One question and its answer; ``points`` become a list, ``notes`` small print."""

    title: str
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All that a report says. ``tiles``: label, value, note; ``scope``: what it is about, line by
    line; ``link``: where the same view can be opened, empty if nobody said."""

    question: str
    headline: str
    tiles: tuple[tuple[str, str, str], ...]
    against: tuple[str, ...]
    badges: tuple[str, ...]
    scope: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    made_at: str
    link: str = ""
    version: str = ""
