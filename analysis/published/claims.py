"""Published tables, judged: which figures do not follow from their own row, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.matching.improvement import improvement
from analysis.money.prices import PRICES, Price
from analysis.published.claims_acceptance import acceptances, beyond_drafts
from analysis.published.claims_costs import costs
from analysis.published.claims_file import Row, Tables, positive
from analysis.published.claims_improvements import better_of, improvements, means
from analysis.published.conventions import gains
from analysis.published.errors import Error, errors
from analysis.published.printed import decimal
from analysis.verdicts.finding import Finding, shown


@dataclass(frozen=True)
class Claims:
    """The judgement of published tables. ``findings``: a row for each figure that could be
    recomputed, in the file's order. ``unclaimed``: sentences on rows that print two values but no
    improvement, and on parts of the file that hold nothing to recompute: silence about them would
    look like consent. ``conventions``: for each column of gains the sentence how it is printed."""

    findings: tuple[Finding, ...]
    unclaimed: tuple[str, ...]
    conventions: tuple[str, ...] = ()

    @property
    def flagged(self) -> tuple[Finding, ...]:
        """The figures that do not follow from their row, or whose price is that of other GPUs."""
        return tuple(finding for finding in self.findings if finding.flagged)

    @property
    def errors(self) -> tuple[Error, ...]:
        """The flagged figures, each under the error that it comes from."""
        return errors(self.flagged)

    def as_json(self) -> dict[str, Any]:
        """Return ``{"checked", "flagged", "errors": [...], "rows": [...], "not_checked": [...],
        "conventions": [...]}``; an error holds the places of its figures in ``rows``, that where it was made first."""
        places = {id(finding): at for at, finding in enumerate(self.findings)}
        return {
            "checked": len(self.findings),
            "flagged": len(self.flagged),
            "errors": [
                {
                    "kind": error.kind,
                    "sentence": error.sentence,
                    "rows": [places[id(finding)] for finding in error.findings],
                }
                for error in self.errors
            ],
            "rows": [finding.as_json() for finding in self.findings],
            "not_checked": list(self.unclaimed),
            "conventions": list(self.conventions),
        }


def judge(tables: Tables, prices: Sequence[Price] = PRICES) -> Claims:
    """Recompute everything in the tables. Raises InvalidInput that names a row it cannot read."""
    printed, conventions = improvements(tables.improvements)
    findings = [
        *printed,
        *means(tables.improvements),
        *acceptances(tables.acceptances),
        *beyond_drafts(tables.improvements, tables.acceptances),
        *costs(tables.costs, tables.improvements, prices),
    ]
    silent = [row for row in tables.improvements if not gains(row.fields)]
    return Claims(
        tuple(findings),
        (
            *(_unprinted(row) for row in silent),
            *(_alone(row) for row in tables.acceptances if "geomean" in row.fields),
            *(f"{name}: nothing to recompute." for name in tables.ignored),
        ),
        tuple(conventions),
    )


def _unprinted(row: Row) -> str:
    old, new = (float(decimal(positive(row, name))) for name in ("baseline", "speculative"))
    value = improvement(old, new, better_of(row))
    about = ", ".join(f"{name} {text}" for name, text in row.about.items())
    return (
        f"{row.place} ({row.name}, {about}) prints no improvement; its values give "
        f"{shown(100 * (value or 0.0), '%')}."
    )


def _alone(row: Row) -> str:
    return f"{row.place}: its means over the load stand without the levels they are taken over."
