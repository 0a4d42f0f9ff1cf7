"""``draftboard claims``: recompute a table of published figures and flag what does not follow."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from analysis.published.claims import Claims
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
    stands on the price of other GPUs than its throughput; figures that are wrong through one error
    stand under it. Measurements in the warehouse that match
    are shown beside it. The exit status is 0 whatever is flagged.

    Example: draftboard claims examples/claims/published-study.yaml
    """
    from analysis.published.claims import judge
    from analysis.published.claims_file import read_claims

    tables = read_claims(_text(file), file.name)
    judged = judge(tables)
    judged = _beside(judged, tables.model, warehouse, filters_from(given))
    if as_json:
        click.echo(json_text(judged.as_json()))
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


def _beside(
    judged: "Claims", model: str | None, warehouse: Path | None, filters: "Filters"
) -> "Claims":
    """Add our own measurements to the claims; leave them as they are where no warehouse was named
    and none is there."""
    from dataclasses import replace

    from answers.published.answer import beside
    from warehouse.errors import WarehouseMissing
    from warehouse.store import Reader, warehouse_path

    try:
        with Reader(warehouse_path(warehouse)) as reader:
            return replace(judged, findings=beside(reader, judged.findings, model, filters))
    except WarehouseMissing:
        if warehouse is not None:
            raise
        return judged


def _show(judged: "Claims", everything: bool) -> None:
    from answers.published.words import figure, headline_of_claims, in_words
    from commands.output import show_table

    for number, error in enumerate(judged.errors, 1):
        click.echo(f"{number}. {in_words(error.sentence, judged)}")
        for finding in error.findings:
            click.echo(f"   - {figure(finding)}")
    header = ["where", "metric", "published", "recomputed", "flag", "why"]
    if everything and judged.findings:
        show_table(header, [_line(finding) for finding in judged.findings])
    for line in _measured_lines(judged.findings):
        click.echo(line)
    click.echo(headline_of_claims(judged))
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
    from answers.wording import between

    ends = between(told["low"], told["high"], "{:+.1f}".format, " %")
    return f"{told['improvement']:+.1f} % ({f'95 %: {ends}' if ends else 'a single launch: no interval'})"
