"""``draftboard ingest``: the command line of the pipeline."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.deriving import derive_new_facts
from commands.output import progress
from ingest.watch_cli import require_usage, run_watch, show_health
from warehouse.errors import DraftboardError, UnknownKey
from warehouse.json_text import json_text
from warehouse.store_cache import inbox

if TYPE_CHECKING:
    from ingest.guess_cli import Told
    from ingest.pipeline import Options, Outcome

_EPILOG = """\b
Example:
  draftboard ingest results/ --set dataset=SWE-bench --set gpu=H200 --set spec_method=eagle3
  draftboard ingest --watch results/

\b
Exit status: 0 if nothing was rejected, 1 if something was (or the warehouse could
not be written), 2 for wrong usage. With --watch: 0 when it was told to end.
With --health: 0 if the watcher works, 1 if it does not.
"""


@click.command(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A fact that the reports do not state, or state wrongly; repeatable.",
)
@click.option(
    "--facts",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A YAML file that tells facts by the paths of the reports; --set wins.",
)
@click.option(
    "--columns",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A YAML file that says what the columns of a CSV or JSON of one row a run mean.",
)
@click.option(
    "--served-with",
    metavar="COMMAND",
    help="The server's command line, 'vllm serve …': model, arm and arguments follow from it.",
)
@click.option(
    "--guess",
    is_flag=True,
    help="Show what names and contents say of each file, ask for the rest, then take it in.",
)
@click.option("--yes", is_flag=True, help="With --guess: take it in as guessed, without asking.")
@click.option(
    "--warehouse",
    type=click.Path(path_type=Path),
    help="Folder of the warehouse [DRAFTBOARD_WAREHOUSE, else data/warehouse].",
)
@click.option("--keep-text", is_flag=True, help="Store prompt and output texts too.")
@click.option("--no-wait", is_flag=True, help="Refuse when another process is writing.")
@click.option("--replace", is_flag=True, help="Take known results in again, e.g. with other --set.")
@click.option(
    "--rebuild",
    is_flag=True,
    help="Start the warehouse anew from these results; without PATHS from all that it holds.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    default=0,
    help="How many processes read at the same time [one for each core, from 2 to 4].",
)
@click.option(
    "--unit-seconds",
    type=click.FloatRange(min=1),
    default=120,
    show_default=True,
    help="Processor time that reading one result may take; one second more for each MB.",
)
@click.option(
    "--unit-memory",
    type=click.IntRange(min=64),
    default=1024,
    show_default=True,
    help="Memory that reading one result may take, in MB; three times its size more.",
)
@click.option("--watch", is_flag=True, help="Keep looking at the folders; SIGINT or SIGTERM ends.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="With --watch: seconds between two looks; up to 12 times as many while nothing happens.",
)
@click.option("--health", is_flag=True, help="Say how the watcher of this warehouse is, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (--watch: a batch).")
@click.pass_context
def ingest(ctx: click.Context, /, paths: tuple[Path, ...], **given: Any) -> None:  # fmt: skip
    """Take the reports of load generators and result drops into the warehouse.

    PATHS are files or folders, or inboxes, s3://BUCKET/PREFIX; folders are searched for .json files, for .jsonl, .yaml and .csv files
    that are a report, each also .gz or .zst, and for published-*.yaml, the tables of a published
    study. docs/ingest.md lists the load generators. What is known already is passed over.
    """
    try:
        paths = tuple(map(inbox, paths))
    except DraftboardError as error:
        raise click.ClickException(str(error)) from None
    require_usage(paths, given)
    _require_once(paths, given)
    if given["health"]:
        ctx.exit(show_health(given))
    options = _options(paths, given)
    try:
        if given["watch"]:
            run_watch(paths, options, given)
            return
        more = _guessed(paths, options, given)
        if more is None:
            return
        outcome = _run(paths, options, given, more)
    except DraftboardError as error:
        raise click.ClickException(str(error)) from None
    click.echo(json_text(outcome.as_json()) if given["as_json"] else table(outcome))
    ctx.exit(1 if outcome.rejected else 0)


def _require_once(paths: tuple[Path, ...], given: dict[str, Any]) -> None:
    if given["yes"] and not given["guess"]:
        raise click.UsageError("--yes answers what --guess asks: give both, or neither.")
    if given["columns"] and (given["watch"] or not paths or any(map(Path.is_dir, paths))):
        raise click.UsageError("--columns reads tables that are named: give their files as PATHS.")
    if given["guess"] and (not paths or given["watch"]):
        raise click.UsageError("--guess looks at files once: give PATHS, and leave out --watch.")


def _guessed(paths: tuple[Path, ...], options: "Options", given: dict[str, Any]) -> "Told | None":
    """Return what to tell of each file beside what the user said; None: take in nothing."""
    if not given["guess"]:
        return {}
    from ingest.guess_cli import agreed

    return agreed(paths, options, given)


def _options(paths: tuple[Path, ...], given: dict[str, Any]) -> "Options":
    """Return the checked options; wrong usage ends the command with status 2."""
    from ingest.nursery import nursery

    for path in paths:
        if not os.path.lexists(path):
            raise click.UsageError(f"There is nothing at {path}; check the path.")
    # It imports what reading needs while this process imports what finding and writing need.
    nursery()
    from ingest.exchange import Limits
    from ingest.pipeline import Options
    from ingest.settings import checked_facts, parse_settings, read_facts
    from ingest.speculation import served_with
    from ingest.table import read_columns

    try:
        command = given["served_with"]
        settings = {} if command is None else checked_facts(served_with(command))
        settings |= parse_settings(given["pairs"])
        facts = None if given["facts"] is None else read_facts(given["facts"])
        columns = None if given["columns"] is None else read_columns(given["columns"])
    except UnknownKey as error:
        raise click.UsageError(str(error)) from None
    limits = Limits(given["workers"], given["unit_seconds"], given["unit_memory"])
    return Options(settings, given["keep_text"], given["replace"], limits, facts, columns)


def _run(
    paths: tuple[Path, ...], options: "Options", given: dict[str, Any], more: "Told"
) -> "Outcome":
    # Not above: --health needs none of it, and a container asks for it twice a minute.
    from ingest.again import read_again
    from ingest.discovery import Unit, find_units
    from ingest.guess_cli import with_told
    from ingest.pipeline import ingest_each
    from warehouse.store import open_writer
    from warehouse.store_cache import warehouse_path
    from warehouse.store_tables import known_sources

    root = warehouse_path(given["warehouse"])
    known = () if paths else known_sources(root)
    passed_over: list[Path] = []
    units = list(find_units(paths or [source.path for source in known], passed_over))
    total = sum(unit.bytes for unit in units if isinstance(unit, Unit))
    if options.facts is not None:
        for pattern in options.facts.unused(u.path for u in units if isinstance(u, Unit)):
            click.echo(f"--facts: {pattern} fits no path that was found.", err=True)
    writer = open_writer(
        root,
        wait=not given["no_wait"],
        on_wait=lambda message: click.echo(message, err=True),
        rebuild=given["rebuild"],
    )
    with writer as store, progress("ingest", total) as done:
        if not paths:
            outcome = read_again(known, store, options, lambda unit: done(unit.bytes))
        else:
            found = ((unit, with_told(unit, options, more)) for unit in units)
            outcome = ingest_each(found, store, lambda unit: done(unit.bytes))
    derive_new_facts(root)
    outcome.passed_over = passed_over
    return outcome


def table(outcome: "Outcome") -> str:
    """Return what an ingest did, as the lines that end it."""
    held = f"{outcome.cells:,} cells, {outcome.requests:,} requests"
    counts = [
        ("accepted", outcome.accepted, held if outcome.accepted else ""),
        ("already known", outcome.known, ""),
        ("rejected", len(outcome.rejected), ""),
    ]
    if outcome.passed_over:
        counts.insert(2, ("passed over", len(outcome.passed_over), outcome.said_of_passed_over))
    lines = [f"{name:<14}{count:>7,}   {more}".rstrip() for name, count, more in counts]
    for rejection in outcome.rejected:
        lines += [f"  {rejection.path}", f"      {rejection.reason}"]
    return "\n".join(lines)
