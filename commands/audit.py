"""``draftboard audit``: who noted, excluded, accepted, and kept files."""

from pathlib import Path

import click

from commands.options import json_option, whole_warehouse_option
from warehouse.json_text import json_text


@click.command()
@whole_warehouse_option
@json_option
def audit(warehouse: Path | None, as_json: bool) -> None:
    """Print who changed what is said of the results, oldest first.

    Example: draftboard audit --json
    """
    from commands.output import show_table
    from warehouse.annotations import deeds
    from warehouse.store_cache import warehouse_path

    done = deeds(warehouse_path(warehouse))
    if as_json:
        told = [{**vars(deed), "at": deed.at.isoformat()} for deed in done]
        click.echo(json_text({"schema_version": 1, "deeds": told}))
        return
    if not done:
        click.echo("Nobody has noted, excluded, accepted or kept anything yet.")
        return
    show_table(
        ["when (UTC)", "who", "account", "did", "to", "why"],
        [
            [
                f"{deed.at:%Y-%m-%d %H:%M}",
                deed.who,
                deed.account or "",
                deed.what,
                deed.about,
                deed.why,
            ]
            for deed in done
        ],
    )
