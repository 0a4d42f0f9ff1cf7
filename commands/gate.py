"""``draftboard gate``: has anything become worse over the nights? The exit status says so."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import (
    filter_options,
    filters_from,
    json_option,
    judging_options,
    warehouse_option,
)

if TYPE_CHECKING:
    from analysis.nightly.nights import Series
    from analysis.nightly.regressions import Assessment
    from warehouse.filters import Filters

EXIT = {"fine": 0, "regression": 1, "not enough evidence": 2}


@click.command()
@warehouse_option
@filter_options
@judging_options
@click.option(
    "--otava",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write the series into this folder, as Apache Otava reads them.",
)
@json_option
def gate(
    warehouse: Path | None, max_regression: tuple[str, ...], as_json: bool, **given: Any
) -> None:
    """Hold the last nights of every series against those before, and say what became worse.

    A series is one model, hardware, arm, dataset and load. Exit status: 0 fine, 1 regression, 2 not
    enough evidence, wrong usage or an error.

    Example: draftboard gate --dataset code --max-regression itl=3% --max-regression 5%
    """
    from warehouse.errors import DraftboardError

    try:
        found, status = _judge(warehouse, max_regression, given)
    except DraftboardError as error:
        # Exit status 1 says "regression" here, so an error must not end with it.
        click.echo(f"draftboard: {error}", err=True)
        raise SystemExit(2) from None
    if as_json:
        _print_json(found, status)
    else:
        _show(found, status)
    raise SystemExit(given["open_exit"] if EXIT[status] == 2 else EXIT[status])


def _judge(
    warehouse: Path | None, max_regression: tuple[str, ...], given: dict[str, Any]
) -> "tuple[list[Assessment], str]":
    from analysis.nightly.budgets import budgets
    from analysis.nightly.regressions import assess, worst

    allowed = budgets(max_regression)
    series = _series(warehouse, filters_from(given), given["since"])
    if given["otava"] is not None:
        _export(series, given["otava"])
    found = assess(series, allowed)
    return found, worst(found)


def _series(warehouse: Path | None, filters: "Filters", since: datetime | None) -> "list[Series]":
    import pandas as pd

    from analysis.nightly.nights import series_over_nights
    from analysis.significance.comparison import STUDY_TABLE
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    metrics, statistics = ([*dict.fromkeys(words)] for words in zip(*STUDY_TABLE, strict=True))
    with Reader(warehouse_path(warehouse)) as reader:
        cells = queries.cells(reader, filters).to_pandas()
        values = queries.measurements(reader, filters, metrics, statistics).to_pandas()
    if since is not None:
        cells = cells[cells["started_at"] >= pd.Timestamp(since, tz="UTC")]
    lines = pd.DataFrame(list(STUDY_TABLE), columns=["metric", "statistic"])
    return series_over_nights(cells, values.merge(lines, on=["metric", "statistic"]))


def _export(series: "list[Series]", folder: Path) -> None:
    from analysis.nightly.otava import files

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files(series).items():
        (folder / name).write_text(text, encoding="utf-8")


def _print_json(found: "list[Assessment]", status: str) -> None:
    from analysis.nightly.regressions import as_json

    told = {"status": status, "exit": EXIT[status], "series": [as_json(one) for one in found]}
    click.echo(json.dumps(told, allow_nan=False, default=str))


def _show(found: "list[Assessment]", status: str) -> None:
    from commands.output import show_table

    counts = {word: sum(one.status == word for one in found) for word in EXIT}
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    if not found:
        click.echo("not enough evidence: no good cell with a known start matches.")
        return
    click.echo(f"{status}: {told} (of {len(found)} series)")
    notable = [one for one in found if one.status == status] if status != "fine" else []
    if notable:
        show_table(HEADER, [_row(one) for one in notable])
    for one in notable if status == "regression" else []:
        changes = "; ".join(change.sentence for change in one.changed) or "nothing that is recorded"
        click.echo(f"{one.series.name}, {one.line}: changed with {one.first}: {changes}")


HEADER = ["series", "metric", "change", "95 % interval", "budget", "from", "why"]


def _row(one: "Assessment") -> list[str]:
    from analysis.significance.evidence_tables import interval_text
    from analysis.tables import percent

    return [
        one.series.name,
        one.line,
        percent(one.improvement),
        interval_text(one.low, one.high),
        f"{one.budget:.1%}",
        one.first or "",
        one.why,
    ]
