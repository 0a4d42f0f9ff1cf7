"""``draftboard ingest``, results that another command takes in itself, and what is derived when results change."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.terminal import progress, reading, whole_warehouse_option, working
from warehouse.errors import DraftboardError, InvalidInput, UnknownKey
from warehouse.json_text import json_text
from warehouse.storage.cache import warehouse_path

if TYPE_CHECKING:
    from ingest.model import IngestOptions
    from ingest.pipeline import IngestOutcome
    from warehouse.storage.tables import HeldSource
    from warehouse.store import Reader

# What reads and writes is imported where it is used: those that read import it meanwhile, and a
# container asks for --health twice a minute, which needs none of it.


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
    "--categories",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Kinds of prompts, by their hashes or texts: CSV, JSON or JSONL with category.",
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
@whole_warehouse_option
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
    from warehouse.storage.cache import inbox

    try:
        paths = tuple(map(inbox, paths))
    except DraftboardError as error:
        raise click.ClickException(str(error)) from None
    _require_usage(paths, given)
    if given["health"]:
        ctx.exit(_show_health(given))
    options = _options(paths, given)
    try:
        if given["watch"]:
            _watch(paths, options, given)
            return
        agreed: dict[str, dict[str, Any]] | None = {}
        if given["guess"]:
            from commands.keeping.guess import agree

            agreed = agree(paths, options, given)
        if agreed is None:
            return
        outcome = _run(paths, options, given, agreed)
    except DraftboardError as error:
        raise click.ClickException(str(error)) from None
    click.echo(json_text(outcome.as_json()) if given["as_json"] else table(outcome))
    ctx.exit(1 if outcome.rejected else 0)


def _require_usage(paths: tuple[Path, ...], given: Mapping[str, Any]) -> None:
    watch, guess = given["watch"], given["guess"]
    files = [path for path in paths if watch and path.exists() and not path.is_dir()]
    once = [name for name in ("replace", "rebuild") if watch and given[name]]
    problems = (
        (
            not paths and not given["health"] and (watch or not given["rebuild"]),
            "Missing argument 'PATHS...': name a folder or a report.",
        ),
        (
            once,
            f"--{''.join(once[:1])} is done once, not again and again: give it without --watch.",
        ),
        (files, f"{''.join(map(str, files[:1]))} is no folder: --watch watches folders."),
        (given["yes"] and not guess, "--yes answers what --guess asks: give both, or neither."),
        (
            given["columns"] and (watch or not paths or any(map(Path.is_dir, paths))),
            "--columns reads tables that are named: give their files as PATHS.",
        ),
        (
            guess and (not paths or watch),
            "--guess looks at files once: give PATHS, and leave out --watch.",
        ),
    )
    for sentence in (sentence for is_so, sentence in problems if is_so):
        raise click.UsageError(sentence)


def _show_health(given: Mapping[str, Any]) -> int:
    from warehouse.beside import complaint, read_health

    try:
        health = read_health(warehouse_path(given["warehouse"]))
    except DraftboardError as error:
        click.echo(json_text({"complaint": str(error)}) if given["as_json"] else str(error))
        return 1
    why = complaint(health)
    if given["as_json"]:
        click.echo(json_text({"complaint": why, **health.model_dump(mode="json")}))
        return 0 if why is None else 1
    if why is not None:
        click.echo(why)
    click.echo(
        f"process {health.pid} on {health.host} watches {', '.join(health.folders)} since "
        f"{health.since:%Y-%m-%d %H:%M} UTC"
    )
    if health.last_pass is not None:
        ago = (datetime.now(UTC) - health.last_pass).total_seconds()
        click.echo(
            f"last look {max(0, round(ago)):,} s ago: {health.accepted:,} accepted, "
            f"{health.duplicate:,} duplicate, {health.rejected:,} rejected, "
            f"{health.waiting:,} waiting; generation {health.generation}"
        )
    if health.last_error is not None:
        when = "now" if health.last_error.at == health.last_pass else "gone since, was"
        click.echo(f"trouble ({when}): {health.last_error.text}")
    return 0 if why is None else 1


def _watch(paths: tuple[Path, ...], options: "IngestOptions", given: Mapping[str, Any]) -> None:
    from ingest.watch import Stop, WatchLog, watch
    from warehouse.storage.cache import name_of, warehouse_path

    root, stop, log = warehouse_path(given["warehouse"]), Stop(), WatchLog(given["as_json"])
    with stop.listening():
        log.say(
            f"watching {', '.join(map(str, paths))} for {name_of(root)}, every {given['interval']:g} s; "
            "Ctrl-C ends it"
        )
        watch(paths, root, options, given["interval"], stop, log)
        log.say("stopped")


def _options(paths: tuple[Path, ...], given: Mapping[str, Any]) -> "IngestOptions":
    from ingest.processes import start

    for path in paths:
        if not os.path.lexists(path):
            raise click.UsageError(f"There is nothing at {path}; check the path.")
    # It imports what reading needs while this process imports what finding and writing need.
    start()
    from ingest.kinds import read_kinds
    from ingest.model import IngestOptions, ReadingLimits
    from ingest.settings import checked_facts, parse_settings, read_facts, served_with
    from ingest.table import read_columns

    try:
        command = given["served_with"]
        settings = {} if command is None else checked_facts(served_with(command))
        settings |= parse_settings(given["pairs"])
        facts = None if given["facts"] is None else read_facts(given["facts"])
        columns = None if given["columns"] is None else read_columns(given["columns"])
        kinds = {} if given["categories"] is None else read_kinds(given["categories"])
    except UnknownKey as error:
        raise click.UsageError(str(error)) from None
    limits = ReadingLimits(given["workers"], given["unit_seconds"], given["unit_memory"])
    return IngestOptions(
        settings, given["keep_text"], given["replace"], limits, facts, columns, kinds
    )


def _run(
    paths: tuple[Path, ...], options: "IngestOptions", given: Mapping[str, Any],
    agreed: Mapping[str, Mapping[str, Any]],
) -> "IngestOutcome":  # fmt: skip
    from ingest.discovery import find_units
    from ingest.model import Unit
    from ingest.pipeline import ingest_units, read_again, with_facts
    from warehouse.store import open_writer

    root = warehouse_path(given["warehouse"])
    sources: tuple[HeldSource, ...] = ()
    if not paths:
        from warehouse.storage.tables import held_sources

        sources = held_sources(root)
    passed_over: list[Path] = []
    units = list(find_units(paths or [source.path for source in sources], passed_over))
    read = [unit for unit in units if isinstance(unit, Unit)]
    for pattern in options.facts.unused(unit.path for unit in read) if options.facts else ():
        click.echo(f"--facts: {pattern} fits no path that was found.", err=True)
    total = sum(unit.bytes for unit in read)
    writer = open_writer(
        root,
        wait=not given["no_wait"],
        on_wait=lambda message: click.echo(message, err=True),
        rebuild=given["rebuild"],
    )
    with writer as store, progress("ingest", total) as done:
        if not paths:
            outcome = read_again(sources, store, options, lambda unit: done(unit.bytes))
        else:
            own = partial(with_facts, options, facts=agreed)
            outcome = ingest_units(units, store, own, lambda unit: done(unit.bytes))
    derive_new_facts(root)
    outcome.passed_over = passed_over
    return outcome


def table(outcome: "IngestOutcome") -> str:
    """Return what an ingest did, as the lines that end it."""
    held = f"{outcome.cells:,} cells, {outcome.requests:,} requests"
    counts = [
        ("accepted", outcome.accepted, held if outcome.accepted else ""),
        ("already known", outcome.known, ""),
        ("rejected", len(outcome.rejected), ""),
    ]
    if outcome.passed_over:
        counts.insert(2, ("passed over", len(outcome.passed_over), outcome.words_of_passed_over))
    lines = [f"{name:<14}{count:>7,}   {more}".rstrip() for name, count, more in counts]
    for rejection in outcome.rejected:
        lines += [f"  {rejection.path}", f"      {rejection.reason}"]
    return "\n".join(lines)


# --- Results that a command takes into a warehouse itself, and what is derived when results change.


#: With fewer cells computing the facts anew costs less than importing what derives them.
LEAST_CELLS = 1000


def take_in(
    paths: Sequence[Path], root: Path, *, keep_text: bool = False, rebuild: bool = False
) -> "IngestOutcome":
    """Take what lies in ``paths`` into the warehouse at ``root``, as `draftboard ingest` does without
    other options. ``rebuild``: what the warehouse held before counts no more."""
    from ingest.discovery import find_units
    from ingest.model import IngestOptions
    from ingest.pipeline import ingest_units
    from warehouse.store import open_writer

    with open_writer(
        root, on_wait=lambda told: click.echo(told, err=True), rebuild=rebuild
    ) as store:
        outcome = ingest_units(find_units(paths), store, IngestOptions(keep_text=keep_text))
    derive_new_facts(root)
    return outcome


@contextmanager
def reading_drops(drops: Sequence[Path]) -> "Iterator[Reader]":
    """Open a warehouse of these drops alone, with their texts, that is gone afterwards. Raises InvalidInput
    where one cannot be read."""
    with tempfile.TemporaryDirectory(prefix="draftboard-drops-") as folder:
        root = Path(folder) / "warehouse"
        for rejection in take_in(drops, root, keep_text=True).rejected:
            raise InvalidInput(f"{rejection.path} cannot be compared: {rejection.reason}")
        with reading(root) as reader:
            yield reader


def derive_facts(root: Path) -> None:
    """Derive the facts of the studies that changed, where the warehouse is large."""
    from warehouse.storage.current import cells_held

    if cells_held(root) < LEAST_CELLS:
        return
    from answers.ground import derive

    try:
        with working("deriving what pages show"):
            derive(root)
    except (DraftboardError, OSError):
        # Nothing is lost: facts that are not kept are computed by whoever asks for them.
        return


def derive_new_facts(root: Path) -> None:
    """Do the same after an ingest, once the studies that have grown since the last time are large."""
    from warehouse.storage.current import cells_held

    if cells_held(root) < LEAST_CELLS:
        return
    from answers import code_hash
    from warehouse.beside import derived_upto
    from warehouse.queries import cells_of_grown_studies

    try:
        with reading(root) as reader:
            grown = cells_of_grown_studies(reader, derived_upto(root, code_hash()))
    except (DraftboardError, OSError):
        return
    if grown >= LEAST_CELLS:
        derive_facts(root)
