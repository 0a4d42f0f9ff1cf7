"""The one command, and ``draftboard.open`` for notebooks (docs/python.md).

It maps sub-commands to the packages, and imports a package only when it is used.
"""

import importlib
import sys
import time
from collections.abc import Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import DraftboardError, WarehouseUnreachable
from warehouse.json_text import for_terminal

if TYPE_CHECKING:
    from commands.notebook import RemoteWarehouse, Warehouse

#: heading -> name -> (module:attribute, the line that --help prints). The line stands here so that the
#: list of commands costs no import of pandas, duckdb or streamlit.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Measure": {
        "plan": ("commands.running.plan:plan", "Show the cells, launches, commands, time and cost of a study."),
        "doctor": ("commands.running.plan:doctor", "Can this study run here? Each finding with its remedy."),
        "run": ("commands.running.run:run", "Measure what a study still lacks, here or on a cluster."),
        "search": ("commands.running.search:search", "The best arm of each load by the fewest minutes of measuring."),
        "nightly": ("commands.running.nightly:nightly", "Run, ingest, gate, notify, report: one night."),
        "release": ("commands.running.release:release", "Before an upgrade: the same cells with two releases, judged."),
        "cluster": ("commands.running.cluster:cluster", "Jobs of a study on a cluster: status, cancel, logs, collect."),
    },
    "Answer": {
        "verdict": ("commands.decide:verdict", "Should it be served with speculation? One paragraph."),
        "compare": ("commands.decide:compare", "Compare baseline with speculative, matched cells only."),
        "tune": ("commands.decide:tune", "The best K of each load as vLLM takes it; methods ranked."),
        "cost": ("commands.cost:cost", "What a million tokens cost and what is saved; slo, pareto."),
        "whatif": ("commands.whatif:whatif", "Predict a K, load or acceptance that was not measured."),
        "gate": ("commands.gate:gate", "Has anything become worse over nights? Exit status 0, 1 or 2."),
        "live": ("commands.live:live", "Does the decision hold for what a server does now? Reads its metrics."),
        "claims": ("commands.claims:claims", "Recompute published figures; flag what does not follow."),
    },
    "Keep": {
        "ingest": ("commands.keeping.ingest:ingest", "Take reports and result drops into the warehouse."),
        "runs": ("commands.keeping.runs:runs", "What the warehouse holds; reproduce, diff, note, exclude …"),
        "warehouse": ("commands.keeping.warehouse:warehouse", "Look after the warehouse: info, check, compact, gc …"),
    },
    "Show and pass on": {
        "dashboard": ("commands.dashboard:dashboard", "Open the dashboard and its API; token, mcp."),
        "share": ("commands.share:share", "Pass results on: report, bundle, publish, verify."),
    },
}  # fmt: skip
COMMANDS = {name: known for section in SECTIONS.values() for name, known in section.items()}
#: The same for commands of two words, which belong to the one that their first word names.
PARTS: dict[str, tuple[str, str]] = {
    "cluster collect": ("commands.running.cluster:collect_command", "Bring the results of several nodes together."),
    "cost slo": ("commands.cost:slo", "The largest load of each arm that meets an SLO, and its goodput."),
    "cost pareto": ("commands.cost:pareto", "Throughput per GPU against tokens/s per user."),
    "runs diff": ("commands.keeping.runs:diff", "How two cells or runs differ in their configuration."),
    "runs reproduce": ("commands.running.reproduce:reproduce", "Measure a kept cell again: does it come out alike?"),
    "runs note": ("commands.keeping.runs:note", "Write down what a run or a night should be read with."),
    "runs exclude": ("commands.keeping.runs:exclude", "Leave runs out of every comparison, with a reason."),
    "runs include": ("commands.keeping.runs:include", "Take an excluded run back."),
    "runs audit": ("commands.keeping.runs:audit", "Who noted, excluded, accepted, kept files."),
    "dashboard token": ("commands.dashboard:token", "Personal tokens for programs that ask the API."),
    "dashboard mcp": ("commands.dashboard:mcp", "Answer an agent's questions (Model Context Protocol)."),
    "share report": ("commands.share:report", "Write the verdict as one HTML file to pass on."),
    "share bundle": ("commands.share:share", "A read-only folder that opens elsewhere with one command."),
    "share publish": ("commands.share:publish", "A signed result set for everybody, with a page to read it."),
    "share verify": ("commands.share:verify", "Does a published set hold: signature, hashes, numbers, claims?"),
}  # fmt: skip
#: Old name -> today's. The old ones do what they did.
OLD = {part.partition(" ")[2]: part for part in PARTS if part != "share bundle"}
OLD["serve"] = "dashboard"


def open(path: str | Path | None = None, token: str | None = None) -> "Warehouse | RemoteWarehouse":
    """The warehouse at ``path``, else at DRAFTBOARD_WAREHOUSE, else at ``data/warehouse``; or behind
    the address of a server, ``https://…``, which may ask for a ``token`` (else DRAFTBOARD_TOKEN).

    Raises WarehouseMissing where there is none.
    """
    if isinstance(path, str) and path.startswith(("https://", "http://")):
        from commands.notebook import RemoteWarehouse

        return RemoteWarehouse(path, token)
    from commands.notebook import Warehouse
    from warehouse.storage.cache import warehouse_path
    from warehouse.store import Reader

    root = warehouse_path(None if path is None else Path(path))
    with Reader(root):
        return Warehouse(root)


def command_named(name: str) -> click.Command:
    """Return the command of that name, imported now. KeyError where there is none."""
    module, _, attribute = (COMMANDS | PARTS)[name][0].partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command


class LazyGroup(click.Group):
    """A group whose sub-commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = OLD.get(cmd_name, cmd_name)
        if name not in COMMANDS | PARTS:
            return None
        command = command_named(name)
        parts = [f"  draftboard {p}: {PARTS[p][1]}" for p in PARTS if p.startswith(f"{name} ")]
        if parts:
            command = copy(command)
            own = f"{command.epilog}\n\n" if command.epilog else ""
            command.epilog = own + "\n".join(("\b", "Belongs to it:", *parts))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if " ".join(args[:2]) in PARTS:
            args = [" ".join(args[:2]), *args[2:]]
        elif args[0] in OLD:
            click.echo(f"draftboard {args[0]} is now: draftboard {OLD[args[0]]}", err=True)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, section in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, line) for name, (_, line) in section.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="draftboard", prog_name="draftboard")
@click.pass_context
def cli(context: click.Context) -> None:
    """Does speculative decoding pay? Measure it, compare like with like, decide.

    Start with: draftboard ingest examples && draftboard compare
    """
    context.call_on_close(partial(_say_what_is_not_fresh, time.monotonic()))


def _say_what_is_not_fresh(began: float) -> None:
    """Say of which bucket a command has read only this machine's copy, because it could not be
    reached."""
    if "warehouse.storage.current" not in sys.modules:
        return  # Nothing was read, and whoever only asks for help waits for no import.
    if isinstance(sys.exception(), WarehouseUnreachable):
        return  # The command ends with this sentence, and has shown nothing.
    from warehouse.storage.current import not_fresh_since

    for sentence in not_fresh_since(began):
        click.echo(sentence, err=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; a DraftboardError is one sentence on stderr and its exit status."""
    try:
        cli.main(args=argv, prog_name="draftboard")
    except DraftboardError as error:
        click.echo(f"draftboard: {for_terminal(str(error))}", err=True)
        raise SystemExit(error.status) from None


if __name__ == "__main__":
    main()
