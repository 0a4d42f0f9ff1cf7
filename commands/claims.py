"""``draftboard claims``: recompute a table of published figures and flag what does not follow."""

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from analysis.published.claims import Claims
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

    A figure is flagged where rounding in print cannot explain the difference, where a cost stands
    on the price of other GPUs than its throughput, or where a speedup at one request at once is
    above the tokens of a step; figures that are wrong through one error stand under it. Each column
    of gains is read by the convention that its rows follow. Measurements in the warehouse that
    match are shown beside it. The exit status is 0 whatever is flagged.

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

    from answers.published.checked import measured_here
    from warehouse.errors import WarehouseMissing
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    try:
        with Reader(warehouse_path(warehouse)) as reader:
            return replace(judged, findings=measured_here(reader, judged, model, filters))
    except WarehouseMissing:
        if warehouse is not None:
            raise
        return judged


def _show(judged: "Claims", everything: bool) -> None:
    from answers.published.checked import checked, here
    from answers.published.words import figure, headline_of_claims, in_words
    from commands.output import show_table

    for number, error in enumerate(judged.errors, 1):
        click.echo(f"{number}. {in_words(error.sentence, judged)}")
        for finding in error.findings:
            click.echo(f"   - {figure(finding)}")
    if everything and judged.findings:
        header = ["where", "metric", "published", "its own row gives", "flag", "why"]
        show_table(header, [list(astuple(checked(one))[: len(header)]) for one in judged.findings])
    for one in here(judged.findings):
        click.echo(
            f"measured here: {one.metric}, {one.arm} on {one.gpu} [{one.evidence}]: {one.measured} "
            f"(95 %: {one.interval}), published {one.published}"
        )
    for sentence in judged.conventions:
        click.echo(sentence)
    click.echo(headline_of_claims(judged))
    for sentence in judged.unclaimed:
        click.echo(f"not checked: {sentence}")
