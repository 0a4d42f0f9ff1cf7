"""``draftboard gate``: has anything become worse over the nights? The exit status says so."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.exclude import author_option, author_or_unknown
from commands.options import (
    filter_options,
    filters_from,
    json_option,
    judging_options,
    warehouse_option,
    whole_warehouse_option,
)
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from analysis.nightly.nights import Series
    from answers.trend.answer import Line, Trend

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
    if ctx.invoked_subcommand is not None:
        return
    try:
        found = _judge(warehouse, max_regression, given)
        _write_files(found, given)
    except DraftboardError as error:
        # Exit status 1 says "regression" here, so an error must not end with it.
        click.echo(f"draftboard: {error}", err=True)
        raise SystemExit(2) from None
    if as_json:
        _print_json(found)
    else:
        _show(found)
    _tell_others(found, warehouse, given)
    status = EXIT[found.status]
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
    from answers.trend.read import Meant
    from answers.trend.read import accept as accept_night
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    parent = ctx.parent.params.get("warehouse") if ctx.parent else None
    day = None if night is None else f"{night:%Y-%m-%d}"
    what = Meant(day, given["study"], given["series"])
    author = author_or_unknown(given["author"])
    with Reader(warehouse_path(warehouse or parent)) as reader:
        click.echo(accept_night(reader, what, given["why"], author))


def _judge(
    warehouse: Path | None, max_regression: tuple[str, ...], given: dict[str, Any]
) -> "Trend":
    from analysis.nightly.regressions import budgets
    from answers.trend import read
    from answers.trend.answer import trend
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    allowed, root = budgets(max_regression), warehouse_path(warehouse)
    with Reader(root) as reader:
        series = read.series(reader, filters_from(given), given["since"])
    if given["otava"] is not None:
        _export(series, given["otava"])
    return trend(series, allowed, read.accepted(root))


def _export(series: "list[Series]", folder: Path) -> None:
    from analysis.nightly.otava import files

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files(series).items():
        (folder / name).write_text(text, encoding="utf-8")


def _write_files(found: "Trend", given: dict[str, Any]) -> None:
    from commands.gate_files import junit, sarif

    texts = {"junit": partial(junit, found), "sarif": partial(sarif, found, given["sarif_at"])}
    for name, text in texts.items():
        if given[name] is not None:
            _write(given[name], text())


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror}).") from None


def _tell_others(found: "Trend", warehouse: Path | None, given: dict[str, Any]) -> None:
    """Comment on the pull request, where that is asked for. The gate's exit status stands, whatever
    becomes of the comment."""
    if not given["comment"]:
        return
    from answers.decide.answer import decide
    from answers.decide.overview import overviews
    from answers.decide.values import Question
    from commands.gate_files import comment, pull_request
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    try:
        there = pull_request()
        with Reader(warehouse_path(warehouse)) as reader:
            decided = decide(reader, Question(filters=filters_from(given))).decisions
        address = there.say(comment(found, overviews(decided)))
    except DraftboardError as error:
        click.echo(f"draftboard: {error}", err=True)
    else:
        click.echo(f"Commented: {address}", err=True)


def _print_json(found: "Trend") -> None:
    from answers.trend.plain import as_json

    told = as_json(found) | {"exit": EXIT[found.status]}
    click.echo(json_text(told))


def _show(found: "Trend") -> None:
    from commands.output import show_table

    if not found.lines:
        click.echo("not enough evidence: no good cell with a known start matches.")
        return
    click.echo(f"{found.status}: {found.headline}. {found.summary}")
    notable = [line for line in found.lines if line.status == found.status != "fine"]
    if notable:
        show_table(HEADER, [_row(line) for line in notable])
    for line in found.lines:
        if line.status == "regression":
            changed = f"changed with {line.since}: {line.changed_text}"
            click.echo(f"{line.name}, {line.metric}: {changed}")
        if line.drift is not None:
            click.echo(f"{line.name}, {line.metric} {line.drift.said}")


HEADER = ["series", "metric", "change", "95 % interval", "budget", "since", "against", "why"]


def _row(line: "Line") -> list[str]:
    return [
        line.name, line.metric, line.change, line.interval, f"{line.budget:.1%}", line.since or "",
        line.against, line.why,
    ]  # fmt: skip
