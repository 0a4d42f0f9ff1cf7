"""Every command line in deploy/ is one that this version understands."""

import click
import pytest

import draftboard
from tests.deploy.files import our_commands

COMMANDS = list(our_commands())


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=[where for where, _ in COMMANDS])
def test_the_product_understands_each_command_line(where: str, words: list[str]) -> None:
    name, *arguments = words
    command = draftboard.cli.get_command(click.Context(draftboard.cli), name)
    assert command is not None, f"{where}: no command {name}"
    try:
        command.make_context(name, list(arguments))
    except click.exceptions.Exit:
        assert "--help" in arguments


def test_every_way_to_deploy_runs_what_it_is_for() -> None:
    found = {(where.split(" ")[0], words[0]) for where, words in COMMANDS}
    assert {
        ("draftboard-nightly.service", "nightly"),
        ("draftboard-watch.service", "ingest"),
        ("draftboard-dashboard.service", "dashboard"),
        ("deploy/cron/draftboard", "nightly"),
        ("deploy/slurm/nightly.scrontab", "nightly"),
        ("github", "nightly"),
        ("compose", "nightly"),
        ("compose", "ingest"),
        ("kubernetes", "nightly"),
        ("kubernetes", "ingest"),
        ("kubernetes", "dashboard"),
        ("Dockerfile", "dashboard"),
    } <= found
