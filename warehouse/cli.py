"""``draftboard warehouse``: look at the store, check it, keep it small, take a copy."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from commands.output import progress, working
from warehouse import annotations, export, maintenance, store_write
from warehouse.cli_options import WAREHOUSE, say
from warehouse.errors import DraftboardError
from warehouse.json_text import json_text
from warehouse.moves_cli import clone, keep, pull, push, restore
from warehouse.publish_cli import publish
from warehouse.store import current_generation, open_writer
from warehouse.store_files import full_disk_explained, refuse_bundle
from warehouse.store_list import no_current
from warehouse.store_lock import WriterLock


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


@warehouse.command()
@WAREHOUSE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(root: Path, as_json: bool) -> None:
    """What the warehouse holds."""
    found = maintenance.info(root)
    if as_json:
        click.echo(json_text(found))
        return
    for key, value in found.items():
        click.echo(f"{key.replace('_', ' '):16} {value}")


@warehouse.command()
@WAREHOUSE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def check(ctx: click.Context, root: Path, as_json: bool) -> None:
    """Verify hashes, orphans (unless a writer is at work) and references; exits 1 on a finding."""
    with working("checking every file"):
        findings = maintenance.check(root, on_busy=say)
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
    _require(root)
    with open_writer(root, on_wait=say), working("merging files"):
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
    _require(root)
    with open_writer(root, on_wait=say), working("removing what nothing lists"):
        removed = maintenance.collect_garbage(root, _require(root), grace)
    click.echo(f"Removed {len(removed)} files.")


@warehouse.command()
@WAREHOUSE
def convert(root: Path) -> None:
    """Make a warehouse of schema version 3 one of this version; it needs no raw files."""
    _require(root)
    refuse_bundle(root)
    with (
        full_disk_explained(root),
        WriterLock(root).held(wait=True, on_wait=say),
        progress("convert", store_write.STEPS, as_bytes=False) as advance,
    ):
        found = store_write.convert(root, advance)
    if found is None:
        click.echo("The warehouse is of this version already.")
        return
    click.echo(
        f"Converted {sum(one.cells for one in found.segments):,} cells; "
        f"draftboard warehouse gc removes the old database."
    )


for _command in (keep, push, pull, clone, restore, publish):
    warehouse.add_command(_command)


@warehouse.command("export")
@WAREHOUSE
@click.option("--out", required=True, type=click.Path(path_type=Path), help="FILE.duckdb or FOLDER")
def export_command(root: Path, out: Path) -> None:
    """Write one plain database, or a folder of Parquet files."""
    with working(f"writing {out.name}"):
        written = export.export(root, out)
    click.echo(f"Wrote {len(written)} files to {out}.")
    excluded = len(annotations.excluded_runs(root))
    if excluded:
        many = "1 run is" if excluded == 1 else f"{excluded:,} runs are"
        click.echo(f"{many} excluded by name and in it all the same: excluded_runs says which.")


def _require(root: Path) -> int:
    generation = current_generation(root)
    if generation is None:
        raise no_current(root)
    return generation
