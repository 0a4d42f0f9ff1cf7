"""Published studies that the warehouse keeps, and what was measured here of the same thing."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import pandas as pd

from analysis.matching.comparison import Comparison
from analysis.published import claims_measured
from analysis.published.claims import Claims, judge
from analysis.published.claims_file import Row, Tables, read_claims
from analysis.published.conventions import follows, measures
from analysis.published.printed import decimal
from analysis.verdicts.finding import Finding
from answers.ground import Asked, Ground, ground
from answers.published import words
from answers.published.lines import Read, grouped, line, read
from answers.published.measured import Ours, measured_here
from answers.published.values import (
    MEAN,
    PEAK,
    Drafts,
    Figure,
    Line,
    Plot,
    Study,
    Table,
    Value,
)
from warehouse.beside import PublishedTable, published_tables
from warehouse.contract import arm_label
from warehouse.filters import Filters
from warehouse.store import Reader


def studies(reader: Reader, version: str = "") -> tuple[Study, ...]:
    """Return every published study that the warehouse keeps, by name.

    ``version`` is ``published.version(root)``: for whoever remembers the answer, since a new table
    makes no new generation.
    """
    return tuple(_study(reader, one) for one in published_tables(reader.root))


def _study(reader: Reader, kept: PublishedTable) -> Study:
    tables = read_claims(kept.text, kept.name)
    return study(tables, judge(tables), measured_here(reader, tables.model))


def study(tables: Tables, judged: Claims, ours: Ours) -> Study:
    """Return what a published table says, with our own measurements beside it."""
    return _Printed(tables, judged, ours).study()


class _Printed:
    """One published table while its study is put together."""

    def __init__(self, tables: Tables, judged: Claims, ours: Ours) -> None:
        self.tables, self.judged, self.ours = tables, judged, ours
        facts = tables.study
        self.facts = {name: str(value) for name, value in facts.items()}
        self.arm = self._arm(self.facts.get("num_speculative_tokens"))
        loads = facts.get("concurrency")
        self.loads = tuple(loads) if isinstance(loads, list) else ()
        self.rows = read(tables.improvements, judged)

    def _arm(self, k: str | None) -> str:
        method = self.facts.get("method")
        known = int(k) if k is not None and k.isdigit() else None
        return "speculative" if method is None else arm_label(method, known)

    def arms(self, row: Row) -> tuple[str, str]:
        """Return the names of the arms of a row's two values: ``arms: 4 against 3`` says numbers of
        draft tokens."""
        new, between, old = row.about.get("arms", "").partition(" against ")
        return (self._arm(old), self._arm(new)) if between else ("baseline", self.arm)

    def study(self) -> Study:
        means = [row for row in self.rows if row.of == MEAN and "arms" not in row.row.about]
        tables = tuple(self._tables())
        return Study(
            words.name(self.facts), self.facts.get("source", self.tables.where),
            words.headline(means, self.arm, self.loads), words.about(self.facts), self.tables.model,
            self.facts.get("gpu"), self.arm, tables, tuple(self._figures(tables)),
            tuple(_drafts(self.tables)), tuple(words.money(self._costs())),
            tuple(words.mistakes(self.judged)), len(self.judged.findings),
            len(self.judged.flagged),
        )  # fmt: skip

    def _costs(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.judged.findings if "usd_per_hour" in one.about)

    def _tables(self) -> Iterator[Table]:
        """Yield a table for each section, dataset and size whose rows are means."""
        means = [row for row in self.rows if row.of == MEAN]
        for (place, _, arms), rows in groupby(
            means, lambda one: (one.place, one.row.section, self.arms(one.row))
        ):
            dataset, size = place
            compared = arms[0] != "baseline"
            title = f"{dataset}, TP {size}" + (f": {arms[1]} against {arms[0]}" if compared else "")
            yield Table(title, dataset, size, arms, tuple(self._line(one, arms) for one in rows))

    def _line(self, one: Read, arms: tuple[str, str]) -> Line:
        told = line(one)
        ours = self.ours.beside(one.place, told, arms)
        return replace(told, measured=ours)

    def _figures(self, tables: Sequence[Table]) -> Iterator[Figure]:
        for given in self.tables.figures:
            place = (str(given.get("dataset")), str(given.get("tp")))
            title = str(given.get("title"))
            drafts = title == DRAFT_TOKENS
            names = [str(name) for name in given.get("metrics", ())]
            plots = tuple(self._plot(name, place, drafts) for name in names)
            rows = [r for r in self.rows if r.place == place and "arms" not in r.row.about]
            shown = [t.title for t in tables if (t.dataset, t.tensor_parallel_size) == place
                     and (t.arms[0] == "baseline") is not drafts]  # fmt: skip
            number = int(given.get("figure", 0))
            told = words.drafts_answer(plots) if drafts else words.answer(plots, rows)
            yield Figure(
                number, f"Figure {number}: {place[0]}, TP {place[1]}: {title.lower()}", told,
                *place, tuple(one for one in plots if one.values), shown[0] if shown else "",
            )  # fmt: skip

    def _plot(self, name: str, place: tuple[str, str], drafts: bool) -> Plot:
        """Return what was printed of one metric: over K where the figure is about draft tokens."""
        first = next(row for row in self.rows if row.row.name == name)
        line_of = (first.named.metric, first.named.statistic)
        rows = [
            row for row in self.rows
            if row.place == place and (row.named.metric, row.named.statistic) == line_of
            and ("arms" in row.row.about) is drafts
        ]  # fmt: skip
        printed = [v for row in rows for v in row.printed(self.arms(row.row))]
        peaks = self._peaks(line_of[0]) if drafts else ()
        values = tuple(dict.fromkeys((*printed, *peaks)))
        lines = [self._line(row, self.arms(row.row)) for row in rows]
        notes = tuple(words.flag_note(one) for one in lines if one.flag)
        ours = tuple(dict.fromkeys(m for one in lines for m in one.measured))
        told = line(first)
        return Plot(*line_of, told.name, told.unit, values, notes, ours)

    def _peaks(self, metric: str) -> tuple[Value, ...]:
        """Return the best throughput of each number of draft tokens, where it is printed."""
        rows = [row.fields for row in self.tables.acceptances if _PEAK in row.fields]
        if metric != "output_throughput":
            return ()
        return tuple(
            Value(
                self._arm(str(row["num_speculative_tokens"])), PEAK, float(decimal(row[_PEAK])),
                grouped(row[_PEAK]),
            )
            for row in rows
        )  # fmt: skip


_PEAK = "peak_output_tokens_per_second"
#: The title of a figure that compares numbers of draft tokens.
DRAFT_TOKENS = "Draft tokens"


#: What is printed of a number of draft tokens.
_PRINTED = {"num_speculative_tokens", "acceptance_rate", "mean_acceptance_length"}


def _drafts(tables: Tables) -> Iterator[Drafts]:
    for row in tables.acceptances:
        if row.fields.keys() >= _PRINTED:
            rate = 100 * decimal(row.fields["acceptance_rate"])
            yield Drafts(
                str(row.fields["num_speculative_tokens"]), f"{rate.normalize():f} %",
                str(row.fields["mean_acceptance_length"]),
                f"{follows(measures(row.fields))['length'].value:.2f}",
            )  # fmt: skip


def beside(
    reader: Reader, findings: Sequence[Finding], model: str | None, filters: Filters
) -> tuple[Finding, ...]:
    """Return ``findings``, each with what the filters show of the same thing; ``model``: of the
    claims."""
    also = tuple(claims_measured.lines(findings))
    known = ground(reader, Asked(filters, also=also))
    return claims_measured.beside(findings, _shown(known), known.sure, model)


def _shown(known: Ground) -> Comparison:
    """Return the comparison of the arms with a cell that the filters keep."""
    pairs = known.found.pairs
    there = pairs[pairs["speculative_id"].astype(object).isin(known.shown)]
    arms = pd.MultiIndex.from_frame(there[["setting", "arm_id"]].drop_duplicates())
    cut = {}
    for name in ("levels", "geomean"):
        rows = getattr(known.found, name)
        cut[name] = rows[pd.MultiIndex.from_frame(rows[["setting", "arm_id"]]).isin(arms)]
    return replace(known.found, **cut)
