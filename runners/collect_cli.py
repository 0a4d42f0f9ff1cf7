"""``draftboard collect``: results of several nodes in one folder."""

from dataclasses import asdict
from pathlib import Path

import click

from runners.collect import collect
from warehouse.json_text import json_text


@click.command("collect")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder that they are copied into.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def collect_command(
    ctx: click.Context, sources: tuple[Path, ...], results: Path, as_json: bool
) -> None:
    """Copy the results of several nodes (SOURCES) into one folder; run again, it goes on.

    Nothing is overwritten: what both sides measured differently is named, and the exit status is 1.

    Example: draftboard collect from-node1 from-node2 --results results
    """
    outcome = collect(list(sources), results)
    if as_json:
        click.echo(json_text(asdict(outcome)))
    else:
        click.echo(
            f"{len(outcome.copied)} cells copied to {results}, {len(outcome.known)} there already"
        )
        if outcome.unfinished:
            click.echo(
                f"{len(outcome.unfinished)} unfinished cells left out; run the study to finish it"
            )
        for name, why in outcome.conflicts:
            click.echo(f"not taken: {name}: {why}", err=True)
    ctx.exit(1 if outcome.conflicts else 0)
