"""``draftboard share``: results for people elsewhere, as one HTML file or as a folder to open."""

from pathlib import Path
from typing import Any

import click

from commands.options import filter_options, filters_from, warehouse_option
from warehouse.errors import InvalidInput


@click.command()
@warehouse_option
@filter_options
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="FILE.html for the report, else the FOLDER of a bundle.",
)
@click.option(
    "--with-texts",
    is_flag=True,
    help="Bundle: also the texts of prompts, outputs and errors, where they were kept.",
)
@click.pass_context
def share(
    ctx: click.Context, /, warehouse: Path | None, out: Path, with_texts: bool, **given: Any
) -> None:
    """Write results to pass on: a report (FILE.html), or a read-only bundle (FOLDER).

    A bundle is a small warehouse with what the filters keep, its notes and exclusions, and without
    the texts of prompts, outputs and errors. With Draftboard installed, anybody opens it with:
    draftboard dashboard --warehouse FOLDER

    Example: draftboard share --study nightly --out for-the-board
    """
    if out.suffix.lower() in (".html", ".htm"):
        _report(ctx, warehouse, out, with_texts, given)
    else:
        _bundle(warehouse, out, with_texts, given)


def _bundle(warehouse: Path | None, out: Path, with_texts: bool, given: dict[str, Any]) -> None:
    from warehouse.store_cache import warehouse_path
    from warehouse.store_copies import bundle

    made = bundle(warehouse_path(warehouse), out, filters_from(given), with_texts)
    click.echo(
        f"Wrote {out}: {made.cells:,} cells of {made.sources:,} sources, {made.requests:,} requests "
        f"{'with' if with_texts else 'without'} their texts, {made.annotations:,} notes and "
        "exclusions."
    )
    click.echo(f"Open it with: draftboard dashboard --warehouse {out}")


def _report(
    ctx: click.Context, warehouse: Path | None, out: Path, with_texts: bool, given: dict[str, Any]
) -> None:
    if with_texts:
        raise InvalidInput("--with-texts is for a bundle: a report never holds prompts or outputs.")
    # The report is the dashboard's own command; no other package may import the dashboard.
    group = ctx.find_root().command
    command = group.get_command(ctx, "report") if isinstance(group, click.Group) else None
    if command is None:
        raise InvalidInput("Reports are written by the whole program: draftboard share …")
    ctx.invoke(command, warehouse=warehouse, out=out, **given)
