"""``draftboard mcp``: the questions of the API as tools for agents, over this process's own input."""

from pathlib import Path

import click

from commands.options import whole_warehouse_option


@click.command()
@whole_warehouse_option
def mcp(warehouse: Path | None) -> None:
    """Serve the Model Context Protocol on standard input and output, for an agent that starts this.

    Its tools ask what the API is asked (runs, compare, decide, cost …), and questions in SQL under the
    limits of the page Data. All of them only read. A dashboard answers the same over HTTP, at /mcp. Needs: pip install 'draftboard[mcp]'.

    Example: draftboard mcp --warehouse /data/warehouse
    """
    from warehouse.errors import InvalidInput
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    try:
        from answers.doors.agents import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise InvalidInput(
            "The package of the protocol is not installed: pip install 'draftboard[mcp]'."
        ) from None
    root = warehouse_path(warehouse)
    with Reader(root):
        serve(root)
