"""``draftboard gate``: has anything become worse over the nights? The exit status says so."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import (
    author_option,
    filter_options,
    filters_from,
    json_option,
    judging_options,
    reading,
    warehouse_option,
    whole_warehouse_option,
)
from commands.output import Table, show, show_json
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.filters import Filters
from warehouse.storage.cache import warehouse_path

if TYPE_CHECKING:
    from answers.trend.answer import Trend

_FILE = click.Path(path_type=Path, dir_okay=False)
EXIT = {"fine": 0, "regression": 1, "not enough evidence": 2}


@click.group(invoke_without_command=True)
@warehouse_option
@filter_options
@judging_options
@click.option(
    "--otava",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write the series into this folder, as Apache Otava reads them.",
)
@click.option("--junit", type=_FILE, help="Also write a test report, a case for each series.")
@click.option("--sarif", type=_FILE, help="Also write annotations (SARIF) of what became worse.")
@click.option(
    "--sarif-at", metavar="PATH", help="File of the repository at which annotations stand."
)
@click.option("--comment", is_flag=True, help="Also comment on the pull request of the workflow.")
@json_option
@click.pass_context
def gate(
    ctx: click.Context,
    /,
    warehouse: Path | None,
    max_regression: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Hold the last nights of every series against the best level before, and say what became worse.

    A series is one model, hardware, arm, dataset and load. What was shown to be worse stays so until
    its end is shown, or until it is accepted: draftboard gate accept. Exit status: 0 fine, 1
    regression, 2 not enough evidence, wrong usage or an error.

    Example: draftboard gate --dataset code --max-regression itl=3% --max-regression 5%
    """
    from answers.trend import answer

    if ctx.invoked_subcommand is not None:
        return
    try:
        root = warehouse_path(warehouse)
        filters, since = filters_from(given), given["since"]
        found = judge(root, filters, since, max_regression, given["otava"])
        if given["junit"] or given["sarif"]:
            from commands import gate_files
        if given["junit"] is not None:
            _write(given["junit"], gate_files.junit(found))
        if given["sarif"] is not None:
            _write(given["sarif"], gate_files.sarif(found, given["sarif_at"]))
    except DraftboardError as error:
        # Exit status 1 says "regression" here, so an error must not end with it.
        show(f"draftboard: {error}", err=True)
        raise SystemExit(2) from None
    status = EXIT[found.status]
    if as_json:
        show_json(answer.trend_json(found) | {"exit": status})
    else:
        _show(found)
    if given["comment"]:
        _comment(found, root, filters)
    raise SystemExit(given["open_exit"] if status == 2 else status)


@gate.command()
@click.argument("night", required=False, type=click.DateTime(["%Y-%m-%d"]))
@click.option("--why", required=True, help="One sentence; it is shown wherever it counts.")
@click.option("--study", help="Only the series of this study [all].")
@click.option(
    "--series",
    metavar="PARTS",
    help='Only series with these parts in their name, as the gate prints it, e.g. "eagle3 K=3, '
    'code" or "Output throughput" [all].',
)
@author_option
@whole_warehouse_option
@click.pass_context
def accept(
    ctx: click.Context, /, night: datetime | None, warehouse: Path | None, **given: Any
) -> None:
    """Accept how things stand in NIGHT, the last one by default, as the reference from then on.

    What became worse up to that night is no regression any more; what was better before it does
    not count any more. Of several acceptances of a series the last said holds, so accepting an
    earlier night again takes a later one back.

    Example: draftboard gate accept 2026-11-21 --why "the new sampler is slower, and right"
    """
    from answers.trend import answer

    parent = ctx.parent.params.get("warehouse") if ctx.parent else None
    day = None if night is None else f"{night:%Y-%m-%d}"
    what = answer.Meant(day, given["study"], given["series"])
    with reading(warehouse or parent) as reader:
        show(answer.accept(reader, what, given["why"], given["author"]))


def judge(
    root: Path,
    filters: Filters,
    since: datetime | None,
    max_regression: Sequence[str],
    otava: Path | None = None,
) -> "Trend":
    """Judge every series over its nights; write them into the folder ``otava``, as Apache Otava reads
    them, where one is named."""
    from analysis.nightly import nights
    from analysis.nightly.regressions import budgets
    from answers.trend import answer
    from warehouse.store import Reader

    allowed = budgets(tuple(max_regression))
    with Reader(root) as reader:
        series = answer.series(reader, filters, since)
    if otava is not None:
        otava.mkdir(parents=True, exist_ok=True)
        for name, text in nights.otava_files(series).items():
            (otava / name).write_text(text, encoding="utf-8")
    return answer.trend(series, allowed, answer.accepted(root))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror}).") from None


def _comment(found: "Trend", root: Path, filters: Filters) -> None:
    """Comment on the pull request. The gate's exit status stands, whatever becomes of the comment."""
    from answers.decide.answer import decide
    from answers.decide.overview import overviews
    from answers.decide.values import DecideQuestion
    from commands import gate_files
    from warehouse.store import Reader

    try:
        there = gate_files.pull_request()
        with Reader(root) as reader:
            decided = decide(reader, DecideQuestion(filters=filters)).decisions
        address = there.say(gate_files.comment(found, overviews(decided)))
    except DraftboardError as error:
        show(f"draftboard: {error}", err=True)
    else:
        show(f"Commented: {address}", err=True)


def _show(found: "Trend") -> None:
    if not found.lines:
        show("not enough evidence: no good cell with a known start matches.")
        return
    header = ("series", "metric", "change", "95 % interval", "budget", "since", "against", "why")
    rows = [
        (*line.table_cells, line.against, line.why)
        for line in found.lines
        if line.status == found.status != "fine"
    ]
    show(
        f"{found.status}: {found.headline}. {found.summary}", Table(header, rows) if rows else None
    )
    for line in found.lines:
        name, worse = f"{line.name}, {line.metric}", line.status == "regression"
        show(
            f"{name}: changed with {line.since}: {line.changed_text}" if worse else None,
            None if line.drift is None else f"{name} {line.drift_text}",
        )
