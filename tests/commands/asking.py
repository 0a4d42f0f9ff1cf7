"""A command as a user runs it: what it prints, what its JSON says, and how it refuses."""

import json
from typing import Any

from click.testing import CliRunner, Result

from draftboard import cli
from warehouse.errors import DraftboardError


def run(*arguments: str) -> Result:
    """The command, whatever it comes to."""
    return CliRunner().invoke(cli, list(arguments))


def told(*arguments: str) -> Any:
    """Its JSON."""
    result = run(*arguments, "--json")
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> DraftboardError:
    """The one sentence with which it refuses."""
    result = run(*arguments)
    assert isinstance(result.exception, DraftboardError), result.output
    assert "\n" not in str(result.exception)
    return result.exception
