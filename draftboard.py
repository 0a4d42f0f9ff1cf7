"""The one command, and ``draftboard.open`` for notebooks (docs/python.md).

It maps sub-commands to the packages, and imports a package only when it is used.
"""

import importlib
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import DraftboardError, WarehouseUnreachable
from warehouse.json_text import for_terminal

if TYPE_CHECKING:
    from commands.notebook import Warehouse
    from commands.remote import Remote

#: name -> (module:attribute, the line that --help prints). The line stands here so that the list
#: of commands costs no import of pandas, duckdb or streamlit.
COMMANDS: dict[str, tuple[str, str]] = {
    "ingest": ("ingest.cli:ingest", "Take reports and result drops into the warehouse."),
    "runs": ("commands.runs:runs", "List what the warehouse holds."),
    "plan": ("runners.plan_cli:plan", "Show the cells, launches, commands, time and cost of a study."),
    "doctor": ("runners.doctor_cli:doctor", "Can this study run here? Each finding with its remedy."),
    "run": ("runners.run_cli:run", "Measure what a study still lacks, here or on a cluster."),
    "reproduce": ("runners.reproduce_cli:reproduce", "Measure a kept cell again: does it come out alike?"),
    "cluster": ("runners.cluster_cli:cluster", "Jobs of a study on a cluster: status, cancel, logs."),
    "collect": ("runners.collect_cli:collect_command", "Bring the results of several nodes together."),
    "verdict": ("commands.verdict:verdict", "Should it be served with speculation? One paragraph."),
    "compare": ("commands.compare:compare", "Compare baseline with speculative, matched cells only."),
    "gate": ("commands.gate:gate", "Has anything become worse over nights? Exit status 0, 1 or 2."),
    "diff": ("commands.diff:diff", "How two cells or runs differ in their configuration."),
    "cost": ("commands.cost:cost", "What a million tokens cost, on which basis, and what is saved."),
    "slo": ("commands.slo:slo", "The largest load of each arm that meets an SLO, and its goodput."),
    "pareto": ("commands.pareto:pareto", "Throughput per GPU against tokens/s per user."),
    "search": ("commands.search:search", "The best arm of each load by the fewest minutes of measuring."),
    "tune": ("commands.tune:tune", "The best K of each load as vLLM takes it; methods ranked."),
    "whatif": ("commands.whatif:whatif", "Predict a K, load or acceptance that was not measured."),
    "claims": ("commands.claims:claims", "Recompute published figures; flag what does not follow."),
    "serve": ("commands.dashboard:dashboard", "Serve the dashboard and its API, on one port."),
    "mcp": ("commands.mcp:mcp", "Answer an agent's questions (Model Context Protocol)."),
    "token": ("commands.token:token", "Personal tokens for programs that ask the API."),
    "audit": ("commands.audit:audit", "Who noted, excluded, accepted, kept files."),
    "note": ("commands.note:note", "Write down what a run or a night should be read with."),
    "exclude": ("commands.exclude:exclude", "Leave runs out of every comparison, with a reason."),
    "include": ("commands.exclude:include", "Take an excluded run back."),
    "nightly": ("nightly.nightly_cli:nightly", "Run, ingest, gate, notify, report: one night."),
    "report": ("dashboard.report_cli:report", "Write the verdict as one HTML file to pass on."),
    "share": ("commands.share:share", "A report or a read-only bundle for somebody else."),
    "publish": ("commands.publish:publish", "A signed result set for everybody, with a page to read it."),
    "verify": ("commands.publish:verify", "Does a published set hold: signature, hashes, numbers, claims?"),
    "dashboard": ("commands.dashboard:dashboard", "Open the dashboard on this machine."),
    "warehouse": ("warehouse.cli:warehouse", "Look after the warehouse: info, check, compact, gc …"),
}  # fmt: skip


def open(path: str | Path | None = None, token: str | None = None) -> "Warehouse | Remote":
    """The warehouse at ``path``, else at DRAFTBOARD_WAREHOUSE, else at ``data/warehouse``; or behind
    the address of a server, ``https://…``, which may ask for a ``token`` (else DRAFTBOARD_TOKEN).

    Raises WarehouseMissing where there is none.
    """
    if isinstance(path, str) and path.startswith(("https://", "http://")):
        from commands.remote import Remote

        return Remote(path, token)
    from commands.notebook import Warehouse
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    root = warehouse_path(None if path is None else Path(path))
    with Reader(root):
        return Warehouse(root)


class LazyGroup(click.Group):
    """A group whose sub-commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


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
    from warehouse.store_current import not_fresh_since

    if isinstance(sys.exception(), WarehouseUnreachable):
        return  # The command ends with this sentence, and has shown nothing.
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
