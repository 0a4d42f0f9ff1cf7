"""``draftboard ingest --watch`` and ``--health``: their part of the command line."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import DraftboardError
from warehouse.json_text import json_text
from warehouse.store_files import warehouse_path

if TYPE_CHECKING:
    from ingest.pipeline import Options
    from warehouse.watch_health import Health

_NOT_WITH_WATCH = ("replace", "rebuild")


def require_usage(paths: tuple[Path, ...], given: dict[str, Any]) -> None:
    """End the command with status 2 where the options about watching are used wrongly."""
    if not paths and not given["health"] and (given["watch"] or not given["rebuild"]):
        raise click.UsageError("Missing argument 'PATHS...': name a folder or a report.")
    if not given["watch"]:
        return
    for name in _NOT_WITH_WATCH:
        if given[name]:
            raise click.UsageError(
                f"--{name} is done once, not again and again: give it without --watch."
            )
    for path in paths:
        if path.exists() and not path.is_dir():
            raise click.UsageError(f"{path} is no folder: --watch watches folders.")


def run_watch(paths: tuple[Path, ...], options: "Options", given: dict[str, Any]) -> None:
    """Watch until SIGINT or SIGTERM."""
    # Not above: a container asks for --health twice a minute, which needs none of it.
    from ingest.watch import Asked, watch
    from ingest.watch_lines import Lines
    from ingest.watch_stop import Stop
    from warehouse.store_cache import name_of

    root, stop, lines = warehouse_path(given["warehouse"]), Stop(), Lines(given["as_json"])
    with stop.listening():
        lines.say(
            f"watching {', '.join(map(str, paths))} for {name_of(root)}, every {given['interval']:g} s; "
            "Ctrl-C ends it"
        )
        watch(Asked(paths, root, options, given["interval"]), stop, lines)
        lines.say("stopped")


def show_health(given: dict[str, Any]) -> int:
    """Print how the watcher of this warehouse is; return the exit status: 0 it works, 1 it does
    not."""
    # Not above: an ingest that watches nothing would wait for it before it starts what reads.
    from warehouse.watch_health import complaint, read_health

    try:
        health = read_health(warehouse_path(given["warehouse"]))
    except DraftboardError as error:
        click.echo(json_text({"complaint": str(error)}) if given["as_json"] else str(error))
        return 1
    why = complaint(health)
    if given["as_json"]:
        click.echo(json_text({"complaint": why, **health.model_dump(mode="json")}))
    else:
        click.echo("\n".join(_sentences(health, why)))
    return 0 if why is None else 1


def _sentences(health: "Health", why: str | None) -> list[str]:
    lines = [] if why is None else [why]
    lines.append(
        f"process {health.pid} on {health.host} watches {', '.join(health.folders)} since "
        f"{health.since:%Y-%m-%d %H:%M} UTC"
    )
    if health.last_pass is not None:
        ago = (datetime.now(UTC) - health.last_pass).total_seconds()
        lines.append(
            f"last look {max(0, round(ago)):,} s ago: {health.accepted:,} accepted, "
            f"{health.duplicate:,} duplicate, {health.rejected:,} rejected, "
            f"{health.waiting:,} waiting; generation {health.generation}"
        )
    if health.last_error is not None:
        when = "now" if health.last_error.at == health.last_pass else "gone since, was"
        lines.append(f"trouble ({when}): {health.last_error.text}")
    return lines
