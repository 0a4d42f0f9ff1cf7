"""``draftboard claims``: recompute a table of published figures and flag what does not follow."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option

if TYPE_CHECKING:
    from analysis.published.claims import Claims
    from analysis.significance.comparison import Comparison
    from analysis.verdicts.finding import Finding
    from warehouse.filters import Filters

#: A table that somebody typed; no more is read.
MOST_BYTES = 10_000_000


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@warehouse_option
@filter_options
@click.option("--all", "everything", is_flag=True, help="Show also the figures that follow.")
@json_option
def claims(
    file: Path, warehouse: Path | None, everything: bool, as_json: bool, **given: Any
) -> None:
    """Recompute the published figures in FILE (YAML or CSV) from their own rows.

    A figure is flagged where rounding in print cannot explain the difference, or where a cost
    stands on the price of other GPUs than its throughput. Measurements in the warehouse that match
    are shown beside it. The exit status is 0 whatever is flagged.

    Example: draftboard claims examples/claims/published-study.yaml
    """
    from analysis.published.claims import judge
    from analysis.published.claims_file import read_claims

    tables = read_claims(_text(file), file.name)
    judged = judge(tables)
    found = _measured(warehouse, filters_from(given))
    if found is not None:
        judged = _beside(judged, found, tables.study)
    if as_json:
        click.echo(json.dumps(judged.as_json(), allow_nan=False))
    else:
        _show(judged, everything)


def _text(file: Path) -> str:
    from warehouse.errors import InvalidInput

    try:
        if file.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{file} is larger than 10 MB: a table of claims is typed by hand.")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is no text: it must be YAML or CSV in UTF-8.") from error


def _measured(warehouse: Path | None, filters: "Filters") -> "Comparison | None":
    """Our own comparison; None where no warehouse was named and none is there."""
    from analysis.significance.comparison import METRICS_READ, STATISTICS_READ, compare
    from commands.measured import read_measured
    from warehouse.errors import WarehouseMissing

    try:
        measured = read_measured(warehouse, filters, METRICS_READ, STATISTICS_READ)
    except WarehouseMissing:
        if warehouse is not None:
            raise
        return None
    if measured.cells.empty:
        return None
    return compare(measured.cells, measured.measurements)


def _beside(judged: "Claims", found: "Comparison", study: Any) -> "Claims":
    from dataclasses import replace

    from analysis.published.claims_measured import beside

    return replace(judged, findings=beside(judged.findings, found, study))


def _show(judged: "Claims", everything: bool) -> None:
    from commands.output import show_table

    rows = judged.findings if everything else judged.flagged
    header = ["where", "metric", "published", "recomputed", "flag", "why"]
    if rows:
        show_table(header, [_line(finding) for finding in rows])
    for line in _measured_lines(judged.findings):
        click.echo(line)
    click.echo(
        f"{len(judged.findings)} figures recomputed, {len(judged.flagged)} flagged; the others "
        "follow from their own rows within the decimals printed."
    )
    for sentence in judged.unclaimed:
        click.echo(f"not checked: {sentence}")


def _line(finding: "Finding") -> list[str]:
    from analysis.verdicts.finding import shown

    where = ", ".join(
        [finding.section, *(f"{name} {text}" for name, text in finding.about.items())]
    )
    values = [shown(value, finding.unit) for value in (finding.published, finding.recomputed)]
    return [where, finding.metric, *values, finding.kind or "", finding.reason]


def _measured_lines(findings: "Sequence[Finding]") -> list[str]:
    return [
        f"measured here: {finding.metric}, {told['arm']} on {told['gpu']} "
        f"[{told['evidence']}]: {_measured_text(told)}, published {finding.published:+.1f} %"
        for finding in findings
        for told in finding.measured
    ]


def _measured_text(told: dict[str, Any]) -> str:
    value = f"{told['improvement']:+.1f} %"
    if told["low"] is None:
        return f"{value} (a single repeat: no interval)"
    return f"{value} (95 %: {told['low']:+.1f} to {told['high']:+.1f} %)"
