"""``draftboard warehouse``: look at the store, check it, keep it small, copy it, publish it elsewhere."""

import re
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from commands.terminal import json_option, progress, working
from warehouse import maintenance
from warehouse.annotations import excluded_runs
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.json_text import json_text
from warehouse.storage import copies
from warehouse.storage.cache import name_of, warehouse_path
from warehouse.storage.current import require_current
from warehouse.storage.files import full_disk_explained, refuse_bundle
from warehouse.storage.lists import number_of
from warehouse.storage.lock import WriterLock
from warehouse.storage.tables import STEPS
from warehouse.storage.tables import convert as convert_old
from warehouse.store import open_writer

WAREHOUSE = click.option(
    "--warehouse",
    "root",
    type=click.Path(path_type=Path),
    callback=lambda ctx, param, value: warehouse_path(value),
    help="Folder or s3://BUCKET/PREFIX [DRAFTBOARD_WAREHOUSE, else data/warehouse]",
)


class _Group(click.Group):
    """Prints an error that the user can act on as one line, and exits 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DraftboardError as error:
            raise click.ClickException(str(error)) from error


@click.group("warehouse", cls=_Group)
def warehouse() -> None:
    """Look at the warehouse, check it, keep it small, take a copy of it.

    Example: draftboard warehouse check --json
    """


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


def _tell_excluded(root: Path) -> None:
    excluded = len(excluded_runs(root))
    if excluded:
        many = "1 run is" if excluded == 1 else f"{excluded:,} runs are"
        click.echo(f"{many} excluded by name and in it all the same: excluded_runs says which.")


@warehouse.command()
@WAREHOUSE
@json_option
def info(root: Path, as_json: bool) -> None:
    """What the warehouse holds."""
    held = maintenance.info(root)
    if as_json:
        click.echo(json_text(held))
        return
    for key, value in held.items():
        click.echo(f"{key.replace('_', ' '):16} {value}")


@warehouse.command()
@WAREHOUSE
@json_option
@click.pass_context
def check(ctx: click.Context, root: Path, as_json: bool) -> None:
    """Verify hashes, orphans (unless a writer is at work) and references; exits 1 on a finding."""
    with working("checking every file"):
        findings = maintenance.check(root, on_busy=_say)
    if as_json:
        click.echo(json_text({"findings": [asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            click.echo(f"{finding.name}: {finding.where}: {finding.sentence}")
        click.echo(f"{len(findings)} findings" if findings else "The warehouse is whole.")
    ctx.exit(1 if findings else 0)


@warehouse.command()
@WAREHOUSE
def compact(root: Path) -> None:
    """Merge small segments, and small request files to about a million rows each."""
    require_current(root)
    with open_writer(root, on_wait=_say), working("merging files"):
        merged = maintenance.compact(root)
    click.echo(f"Merged {merged} request files.")


@warehouse.command()
@WAREHOUSE
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=maintenance.GRACE,
    show_default=True,
    help="Seconds for which an unlisted file is left alone.",
)
def gc(root: Path, grace: float) -> None:
    """Remove old generations and files that nothing lists."""
    require_current(root)
    with open_writer(root, on_wait=_say), working("removing what nothing lists"):
        current = number_of(require_current(root))
        assert current is not None  # It is the name of a generation.
        removed = maintenance.collect_garbage(root, current, grace)
    click.echo(f"Removed {len(removed)} files.")


@warehouse.command()
@WAREHOUSE
def convert(root: Path) -> None:
    """Make a warehouse of schema version 3 one of this version; it needs no raw files."""
    require_current(root)
    refuse_bundle(root)
    with (
        full_disk_explained(root),
        WriterLock(root).held(wait=True, on_wait=_say),
        progress("convert", STEPS, as_bytes=False) as advance,
    ):
        made = convert_old(root, advance)
    if made is None:
        click.echo("The warehouse is of this version already.")
        return
    click.echo(
        f"Converted {sum(segment.cells for segment in made.segments):,} cells; "
        f"draftboard warehouse gc removes the old database."
    )


def _days(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    days = re.fullmatch(r"(\d+)d", value)
    if days is None:
        raise click.BadParameter("write a number of days, such as 90d")
    return float(days[1])


@warehouse.command()
@WAREHOUSE
@click.option(
    "--runs-since",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Keep the requests of runs measured on this day (UTC) or later.",
)
@click.option(
    "--nights",
    type=click.IntRange(min=1),
    help="Keep the requests of so many of the newest nights of each study.",
)
@click.option(
    "--requests-for",
    "days",
    metavar="DAYS",
    callback=_days,
    help="Keep the requests of the last so many days: 90d.",
)
def keep(root: Path, runs_since: datetime | None, nights: int | None, days: float | None) -> None:
    """Let the requests of old runs go; their measurements stay.

    A run that one of the rules names keeps its requests. The files go with the next gc.

    Example: draftboard warehouse keep --requests-for 90d --nights 14
    """
    since = None if runs_since is None else runs_since.replace(tzinfo=UTC)
    with open_writer(root, on_wait=_say), working("looking for old requests"):
        removed = maintenance.keep(root, since, nights, days)
    if not removed:
        click.echo("Every run keeps its requests.")
        return
    click.echo(
        f"{removed:,} cells have no requests any more; draftboard warehouse gc removes the files, "
        "once no generation has listed them for an hour."
    )


@warehouse.command()
@WAREHOUSE
@click.argument("to")
def push(root: Path, to: str) -> None:
    """Upload a folder's warehouse into an empty place in a bucket.

    Example: draftboard warehouse push s3://team/results
    """
    with working(f"uploading to {to}"):
        files = copies.push(root, warehouse_path(to))
    click.echo(f"Uploaded {files:,} files to {to}.")


@warehouse.command()
@WAREHOUSE
def pull(root: Path) -> None:
    """Fetch all of a warehouse in a bucket into this machine's copy.

    Nothing needs it: what a question needs is fetched when it is asked.
    """
    with working(f"fetching {name_of(root)}"):
        files = copies.fetch_all(root)
    click.echo(f"{root} holds all {files:,} request files of {name_of(root)}.")


@warehouse.command()
@click.argument("source")
@click.argument("out", type=click.Path(path_type=Path))
def clone(source: str, out: Path) -> None:
    """Make a folder's warehouse of one in a bucket: a backup, or one to try things with.

    Example: draftboard warehouse clone s3://team/results backup/
    """
    with working(f"fetching {source}"):
        files = copies.clone(warehouse_path(source), out)
    click.echo(f"Wrote {files:,} files to {out}.")


@warehouse.command()
@WAREHOUSE
@click.argument("generation")
def restore(root: Path, generation: str) -> None:
    """Publish again what an older GENERATION held.

    A bucket keeps every generation; a folder keeps two old ones.
    """
    number = copies.restore(root, generation)
    click.echo(f"Generation {number} of {name_of(root)} holds what generation {generation} held.")


@warehouse.command()
@WAREHOUSE
@click.option("--iceberg", help="sqlite:////FILE or postgresql://USER@HOST/DATABASE")
@click.option("--ducklake", help="FILE.ducklake or postgresql://USER@HOST/DATABASE")
@click.option("--location", help="Where files go the first time: folder or s3://BUCKET/PREFIX")
@click.option("--schema", default="draftboard", show_default=True, help="Schema of the tables.")
@click.option("--replace", is_flag=True, help="Also over a newer generation.")
@click.option(
    "--with-python",
    "python",
    type=click.Path(path_type=Path),
    default=Path(".lab/ducklake/bin/python"),
    show_default=True,
    help="Python of the environment that has DuckLake.",
)
def publish(
    root: Path,
    iceberg: str | None,
    ducklake: str | None,
    location: str | None,
    schema: str,
    replace: bool,
    python: Path,
) -> None:
    """Write the tables into a catalogue of Iceberg or DuckLake: the whole generation, or nothing.

    A password is best left to PGPASSWORD or ~/.pgpass; one in the address is never shown or stored.

    Example: draftboard warehouse publish --iceberg sqlite:////lake/catalogue.db --location /lake
    """
    from warehouse import lakes

    if (iceberg is None) == (ducklake is None):
        raise InvalidInput("Name one catalogue: --iceberg TARGET or --ducklake TARGET.")
    target = lakes.target_of(iceberg or ducklake or "")
    order = lakes.PublicationOrder(target, lakes.require_name(schema), location, replace)
    shown = partial(progress, "publish", as_bytes=False)
    with lakes.newest(root) as content:
        if ducklake is not None:
            written = lakes.publish_ducklake(content, order, shown, python)
        else:
            try:
                from warehouse.lakes.iceberg import publish as publish_iceberg
            except ModuleNotFoundError as error:
                raise DraftboardError(
                    f"The package {error.name} is not installed, and --iceberg needs it: "
                    "pip install 'draftboard[iceberg]'."
                ) from None
            written = publish_iceberg(content, order, shown)
        place = f"{target.uri}, schema {schema}"
        number = content.held.generation
        if not written:
            click.echo(f"{place}, holds generation {number} already: nothing was added.")
            return
        click.echo(f"Published generation {number} to {place}.")
        _tell_excluded(root)


@warehouse.command("export")
@WAREHOUSE
@click.option("--out", required=True, type=click.Path(path_type=Path), help="FILE.duckdb or FOLDER")
def export_command(root: Path, out: Path) -> None:
    """Write one plain database, or a folder of Parquet files."""
    with working(f"writing {out.name}"):
        written = copies.export(root, out)
    click.echo(f"Wrote {len(written)} files to {out}.")
    _tell_excluded(root)
