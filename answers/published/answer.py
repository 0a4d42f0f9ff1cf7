"""Published studies that the warehouse keeps, and what was measured here of the same thing."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from analysis.flags.validity import DECIDES_NOTHING
from analysis.matching.comparison import improvement
from analysis.metric_words import read_metric
from analysis.published import claims_measured
from analysis.published.claims import Claims, as_improvement, better_of, judge
from analysis.published.claims_file import Row, Tables, read_claims
from analysis.published.printed import Finding, decimal, follows, gains, measures, shown
from answers.compare.answer import compare_on
from answers.compare.values import ComparedArm, ComparedSetting, CompareQuestion, metric_name
from answers.ground import ground
from answers.published.values import (
    MEAN,
    PEAK,
    MeasuredHere,
    Plot,
    PrintedFigure,
    PrintedLine,
    PrintedRow,
    PrintedTable,
    PrintedValue,
    PublishedStudy,
    drafts_answer,
    figure_answer,
    grouped,
    mistakes,
    money_sums,
    study_headline,
)
from answers.wording import SYNTHETIC, known, percent
from warehouse import queries
from warehouse.beside import published_tables
from warehouse.catalogue import METRICS
from warehouse.contract import arm_label
from warehouse.filters import Filters
from warehouse.store import Reader

#: Kind of a flag -> what is wrong, beside a figure.
FLAGS = {
    "arithmetic": "does not follow",
    "sign": "wrong sign",
    "swapped": "swapped with another row",
    "basis": "on the price of other GPUs",
    "drafts": "not from these drafts alone",
}
_PEAK = "peak_output_tokens_per_second"
#: The title of a figure that compares numbers of draft tokens.
DRAFT_TOKENS = "Draft tokens"
#: What is printed of a number of draft tokens.
_PRINTED = {"num_speculative_tokens", "acceptance_rate", "mean_acceptance_length"}
#: Our unit and the printed one -> the factor between them.
_FACTORS = {("ms", "s"): 1 / 1000.0, ("s", "ms"): 1000.0}


def studies(reader: Reader, version: str = "") -> tuple[PublishedStudy, ...]:
    """Return every published study that the warehouse keeps, by name.

    ``version`` is ``published.version(root)``: for whoever remembers the answer, since a new table
    makes no new generation.
    """
    found = []
    for kept in published_tables(reader.root):
        tables = read_claims(kept.text, kept.name)
        settings: tuple[ComparedSetting, ...] = ()
        if tables.model is not None:
            # What stands beside figures in print decides nothing, so acceptance may be set by hand.
            filters = Filters(model=(tables.model,))
            here = ground(reader, filters, barred=DECIDES_NOTHING - {"synthetic_acceptance"})
            settings = compare_on(here, CompareQuestion(filters)).settings
        found.append(study(tables, judge(tables), settings))
    return tuple(found)


def study(
    tables: Tables, judged: Claims, settings: Sequence[ComparedSetting] = ()
) -> PublishedStudy:
    """Return what a published table says; beside it what was measured here with its model, in
    ``settings``."""
    return _Printed(tables, judged, settings).study()


class _Printed:
    """One published table while its study is put together."""

    def __init__(self, tables: Tables, judged: Claims, settings: Sequence[ComparedSetting]) -> None:
        self.tables, self.judged, self.settings = tables, judged, settings
        self.facts = {name: str(value) for name, value in tables.study.items()}
        self.arm = self._arm(self.facts.get("num_speculative_tokens"))
        self.rows = []
        for row in tables.improvements:
            named, key = read_metric(row.name), (row.section, row.name, row.about)
            if named is not None:
                same = (
                    one for one in judged.findings
                    if one.better is not None and (one.section, one.metric, one.about) == key
                )  # fmt: skip
                self.rows.append(PrintedRow(row, named, next(same, None)))

    def _arm(self, k: str | None) -> str:
        method = self.facts.get("method")
        known = int(k) if k is not None and k.isdigit() else None
        return "speculative" if method is None else arm_label(method, known)

    def arms(self, row: Row) -> tuple[str, str]:
        """Return the names of the arms of a row's two values: ``arms: 4 against 3`` says numbers of
        draft tokens."""
        new, between, old = row.about.get("arms", "").partition(" against ")
        return (self._arm(old), self._arm(new)) if between else ("baseline", self.arm)

    def study(self) -> PublishedStudy:
        means = [row for row in self.rows if row.of == MEAN and "arms" not in row.row.about]
        loads = self.tables.study.get("concurrency")
        tables = tuple(self._tables())
        drafts = tuple(
            (
                str(fields["num_speculative_tokens"]),
                f"{(100 * decimal(fields['acceptance_rate'])).normalize():f} %",
                str(fields["mean_acceptance_length"]),
                f"{follows(measures(fields))['length'].value:.2f}",
            )
            for fields in (row.fields for row in self.tables.acceptances)
            if fields.keys() >= _PRINTED
        )
        costs = [one for one in self.judged.findings if "usd_per_hour" in one.about]
        model = known(self.facts.get("target_model")).rpartition("/")[2]
        facts = self.facts
        draft = facts.get("draft_model")
        run = [
            known(facts.get("target_model")), f"draft {draft}" if draft else "",
            facts.get("gpu", ""), facts.get("engine", ""), facts.get("load_generator", ""),
        ]  # fmt: skip
        return PublishedStudy(
            f"{model} on {known(self.facts.get('gpu'))}", self.facts.get("source", self.tables.where),
            study_headline(means, self.arm, loads if isinstance(loads, list) else ()),
            f"{', '.join(filter(None, run))}. Printed in: {known(facts.get('source'))}.", self.tables.model, self.facts.get("gpu"), self.arm, tables,
            tuple(self._figures(tables)), drafts, tuple(money_sums(costs)),
            tuple(mistakes(self.judged)), len(self.judged.findings),
            len(self.judged.flagged),
        )  # fmt: skip

    def _tables(self) -> Iterator[PrintedTable]:
        means = [row for row in self.rows if row.of == MEAN]
        for (place, _, arms), rows in groupby(
            means, lambda one: (one.place, one.row.section, self.arms(one.row))
        ):
            title = f"{place[0]}, TP {place[1]}"
            if arms[0] != "baseline":
                title = f"{title}: {arms[1]} against {arms[0]}"
            yield PrintedTable(title, place[0], place[1], arms, tuple(map(self._line, rows)))

    def _line(self, row: PrintedRow) -> PrintedLine:
        finding, (old, new) = row.finding, row.values
        follow, unit = percent(improvement(old, new, better_of(row.row))), "%"
        if finding is not None:
            unit, follow = finding.unit, shown(finding.recomputed, finding.unit)
        printed = next(iter(gains(row.row.fields).values()), None)
        gain = "not printed"
        if printed is not None:
            gain = f"{decimal(printed):+} %" if unit == "%" else f"{decimal(printed)}x"
        baseline, speculative = (value.text for value in row.printed(("", "")))
        flag = FLAGS[finding.kind] if finding and finding.flagged and finding.kind else None
        better = None if finding is None else as_improvement(finding)
        both = (better.published, better.recomputed) if better and better.unit == "%" else None
        line = PrintedLine(
            row.named.metric, row.named.statistic,
            metric_name(row.named.metric, row.named.statistic), row.unit, row.of, baseline,
            speculative, gain, follow, flag, both,
        )  # fmt: skip
        # None where the line compares two numbers of draft tokens, or tells a peak.
        if self.arms(row.row)[0] != "baseline":
            return line
        place = tuple(part.casefold() for part in row.place)
        ours = (
            measured
            for setting in self.settings
            if ((setting.dataset or "").casefold(),
                str(setting.subject.tensor_parallel_size or "").casefold()) == place
            for arm in setting.arms
            for measured in _measured_in_printed_unit(arm, line)
        )  # fmt: skip
        return replace(line, measured=tuple(ours))

    def _figures(self, tables: Sequence[PrintedTable]) -> Iterator[PrintedFigure]:
        for given in self.tables.figures:
            place = (str(given.get("dataset")), str(given.get("tp")))
            title = str(given.get("title"))
            drafts = title == DRAFT_TOKENS
            plots = tuple(self._plot(str(name), place, drafts) for name in given.get("metrics", ()))
            rows = [r for r in self.rows if r.place == place and "arms" not in r.row.about]
            shown = [t.title for t in tables if (t.dataset, t.tensor_parallel_size) == place
                     and (t.arms[0] == "baseline") is not drafts]  # fmt: skip
            number = int(given.get("figure", 0))
            told = drafts_answer(plots) if drafts else figure_answer(plots, rows)
            yield PrintedFigure(
                number, f"Figure {number}: {place[0]}, TP {place[1]}: {title.lower()}", told,
                *place, tuple(one for one in plots if one.values), shown[0] if shown else "",
            )  # fmt: skip

    def _plot(self, name: str, place: tuple[str, str], drafts: bool) -> Plot:
        """Return what was printed of one metric: over K where the figure is about draft tokens."""
        first = next(row for row in self.rows if row.row.name == name)
        metric, statistic = first.named.metric, first.named.statistic
        rows = [
            row for row in self.rows
            if row.place == place and (row.named.metric, row.named.statistic) == (metric, statistic)
            and ("arms" in row.row.about) is drafts
        ]  # fmt: skip
        values = [value for row in rows for value in row.printed(self.arms(row.row))]
        if drafts and metric == "output_throughput":
            # The best throughput of each number of draft tokens, where it is printed.
            values += [
                PrintedValue(
                    self._arm(str(fields["num_speculative_tokens"])), PEAK,
                    float(decimal(fields[_PEAK])), grouped(fields[_PEAK]),
                )
                for fields in (row.fields for row in self.tables.acceptances)
                if _PEAK in fields
            ]  # fmt: skip
        lines = [self._line(row) for row in rows]
        wrong = (f"printed {x.printed}, its row gives {x.recomputed}: {x.flag}"
                 for x in lines if x.flag)  # fmt: skip
        ours = tuple(dict.fromkeys(m for one in lines for m in one.measured))
        return Plot(
            metric, statistic, metric_name(metric, statistic), first.unit,
            tuple(dict.fromkeys(values)), tuple(wrong), ours,
        )  # fmt: skip


def _measured_in_printed_unit(arm: ComparedArm, line: PrintedLine) -> Iterator[MeasuredHere]:
    key, name, badges = (line.metric, line.statistic), arm.name, arm.badges
    found = []
    if line.of == MEAN:
        found += [
            MeasuredHere(
                name, badges, MEAN, one.reference, one.arm, one.improvement, None, None, None
            )
            for one in arm.means
            if (one.metric, one.statistic) == key
        ]
    at_once = line.of if line.of.endswith(" at once") else None
    found += [
        MeasuredHere(
            name, badges, line.of, one.reference.mean, one.arm.mean, one.improvement,
            *((one.low, one.high, one.word) if SYNTHETIC not in badges else (None, None, None)),
        )
        for one in arm.changes
        if (one.line, at_once) == (key, one.load.text if one.load else None)
    ]  # fmt: skip
    factor = _FACTORS.get((METRICS[line.metric].unit, line.unit), 1.0)
    for measured in found:
        reference, value = (
            None if x is None else x * factor for x in (measured.reference, measured.value)
        )
        yield replace(measured, reference=reference, value=value)


def measured_here(
    reader: Reader, judged: Claims, model: str | None, filters: Filters
) -> tuple[Finding, ...]:
    """Return the figures, each with what the filters show of the same thing; nothing is read of
    models that no figure is about. ``model``: of the claims."""
    named = {finding.about.get("model", model) for finding in judged.findings}
    if None not in named:
        asked = {str(name).strip().casefold() for name in named}
        options = queries.filter_options(reader).to_pylist()
        kept = tuple(
            name
            for name in sorted({row["value"] for row in options if row["field"] == "model"})
            if name.strip().casefold() in asked and (not filters.model or name in filters.model)
        )
        if not kept:
            return judged.findings
        filters = replace(filters, model=kept)
    return beside(reader, judged.findings, model, filters)


def beside(
    reader: Reader, findings: Sequence[Finding], model: str | None, filters: Filters
) -> tuple[Finding, ...]:
    """Return ``findings``, each with what the filters show of the same thing; ``model``: of the
    claims."""
    known = ground(reader, filters, also=tuple(claims_measured.lines(findings)))
    levels, means = map(known.of_shown_arms, (known.found.levels, known.found.geomean))
    shown = replace(known.found, levels=levels, geomean=means)
    return claims_measured.beside(findings, shown, known.sure, model)
