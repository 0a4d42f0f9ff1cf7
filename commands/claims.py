"""``draftboard claims``: recompute a table of published figures and flag what does not follow."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from commands.terminal import (
    Table,
    filter_options,
    filters_from,
    json_option,
    reading,
    show,
    show_json,
    warehouse_option,
)
from warehouse.errors import InvalidInput, WarehouseMissing

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
    from answers.published import values
    from answers.published.answer import measured_here

    tables = read_claims(_text(file), file.name)
    judged = judge(tables)
    try:
        with reading(warehouse) as reader:
            found = measured_here(reader, judged, tables.model, filters_from(given))
            judged = replace(judged, findings=found)
    except WarehouseMissing:
        # Where nobody named a warehouse and none is there, the claims stand alone.
        if warehouse is not None:
            raise
    if as_json:
        show_json(judged.as_json())
        return
    for number, error in enumerate(judged.errors, 1):
        show(
            f"{number}. {values.in_words(error.sentence, judged)}",
            *(f"   - {values.figure_words(finding)}" for finding in error.findings),
        )
    header, rows = values.checked(judged.findings)
    # A terminal has no room for what rounding leaves open.
    figures = Table(header[:-1], [row[:-1] for row in rows])
    show(
        figures if everything and rows else None,
        *(
            f"measured here: {ours.metric}, {ours.arm} on {ours.gpu} [{ours.evidence}]: "
            f"{ours.measured} (95 %: {ours.interval}), published {ours.published}"
            for ours in values.here(judged.findings)
        ),
        *judged.conventions,
        values.headline_of_claims(judged),
        *(f"not checked: {sentence}" for sentence in judged.unclaimed),
    )


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{file} is larger than 10 MB: a table of claims is typed by hand.")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is no text: it must be YAML or CSV in UTF-8.") from error
