"""``draftboard dashboard``, or ``serve``: starts Streamlit, on this machine only unless told otherwise.
``token``: for programs that ask its API. ``mcp``: the same questions for an agent that starts us.

The dashboard itself decides who sees what (``dashboard/doors/access.py``), however it is started; here a
server that would show nothing to anybody is refused before it starts.
"""

import ipaddress
import os
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import click

from commands.terminal import (
    Table,
    author_option,
    reading,
    show,
    warehouse_option,
    whole_warehouse_option,
)
from warehouse.errors import InvalidInput
from warehouse.storage.cache import warehouse_path

#: The name in ``dashboard.doors.access.OPEN``, which this package may not import.
_OPEN = "DRAFTBOARD_OPEN_TO_EVERYONE"
_LOCAL = ("localhost", "127.0.0.1", "::1")
#: What must hold wherever the command is given: `.streamlit/config.toml` is read in its folder only.
_ALWAYS = (
    "--server.headless=true",
    "--server.enableCORS=true",
    "--server.enableXsrfProtection=true",
    "--server.enableStaticServing=false",
    "--server.maxUploadSize=50",
    "--client.showErrorDetails=none",
    "--client.toolbarMode=minimal",
    "--browser.gatherUsageStats=false",
    # No walk through all of the memory after each click (dashboard/app.py).
    "--runner.postScriptGC=false",
    # To print it, Streamlit would ask an address on the internet for ours.
    "--logger.hideWelcomeMessage=true",
)


def app_file() -> Path:
    """Return the Streamlit entry file of the installed ``dashboard`` package."""
    spec = find_spec("dashboard")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations))) / "app.py"


@click.command()
@warehouse_option
@click.option("--host", default="localhost", show_default=True, help="Address to listen on.")
@click.option("--port", default=8501, show_default=True, help="Port to listen on.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A host name under which it may be opened; repeatable. Others are refused.",
)
@click.option(
    "--open-to-everyone",
    "everyone",
    type=click.Choice(["viewer", "editor"]),
    help="Without a login: what everybody may who reaches it from elsewhere.",
)
def dashboard(
    warehouse: Path | None, host: str, port: int, names: tuple[str, ...], everyone: str | None
) -> None:
    """Open the dashboard and its API on this machine; Ctrl-C ends it.

    To other machines it is opened by --host with a login (docs/sharing.md) or --open-to-everyone.

    Example: draftboard dashboard --port 8600
    """
    environment = dict(os.environ)
    if warehouse is not None:
        environment["DRAFTBOARD_WAREHOUSE"] = str(warehouse)
    if everyone is not None:
        environment[_OPEN] = everyone
    # Whether a file of Streamlit's secrets has a login; the dashboard checks that it is right.
    # InvalidInput where one cannot be read: Streamlit itself would end with a traceback.
    folders = (Path.home(), Path.cwd(), app_file().parent)
    stated = os.environ.get("STREAMLIT_SECRETS_FILES", "").split()
    with_login = False
    for path in stated or [str(folder / ".streamlit" / "secrets.toml") for folder in folders]:
        try:
            text = Path(path).read_bytes().decode("utf-8")
            with_login = with_login or "auth" in tomllib.loads(text)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InvalidInput(
                f"The secrets in {path} cannot be read ({error.strerror}); let the user that runs "
                "the dashboard read the file, or take it away."
            ) from None
        except ValueError:
            # What cannot be understood: the dashboard says so, and lets nobody in.
            with_login = True
    if not (_is_local(host) or _OPEN in environment or with_login):
        raise InvalidInput(
            f"Anybody who reaches {host} would see the results; set up a login (docs/sharing.md), "
            "say --open-to-everyone viewer, or leave out --host."
        )
    shown = "localhost" if host in ("0.0.0.0", "::") else host  # noqa: S104 - only shown
    show(
        f"Dashboard: http://{shown}:{port}  (Ctrl-C ends it)",
        f"API:       http://{shown}:{port}/api/v1/openapi.json",
    )
    command = [sys.executable, "-m", "streamlit", "run", str(app_file()), *_ALWAYS]
    command += [f"--server.port={port}", f"--server.address={host}"]
    # Without names the dashboard knows the local ones.
    command += [f"--server.allowedHosts={name}" for name in (*_LOCAL, *names)] if names else []
    sys.stdout.flush()
    # In the place of this process: whoever stops it (a service manager, Ctrl-C) stops the server.
    os.execve(sys.executable, command, environment)


def _is_local(host: str) -> bool:
    if host in _LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# --- ``draftboard token``: personal tokens for programs that ask the API.


@click.group()
def token() -> None:
    """Make, list and take back tokens by which programs ask the API of a dashboard with a login.

    Example: draftboard token new ada@example.com --days 30
    """


@token.command()
@click.argument("account", metavar="ADDRESS")
@click.option(
    "--days", type=click.IntRange(1, 366), default=90, show_default=True, help="How long it counts."
)
@author_option
@whole_warehouse_option
def new(account: str, days: int, author: str, warehouse: Path | None) -> None:
    """Make a token for the person with ADDRESS, whom the login's settings have to name by address
    or domain. Who has it reads what a viewer reads, and does nothing else.

    The token is printed once and kept nowhere: in the warehouse stands a hash of it.
    """
    from warehouse import annotations

    if account.count("@") != 1 or account.strip() != account:
        raise InvalidInput(f"{account!r} is no address; write one like ada@example.com.")
    made, secret = annotations.make_token(warehouse_path(warehouse), account, days, author)
    click.echo(secret)
    click.echo(
        f"Token {made.id} of {made.account}, until {made.ends:%Y-%m-%d}. It is not shown again. "
        "Send it as: Authorization: Bearer TOKEN", err=True,
    )  # fmt: skip


@token.command(name="list")
@whole_warehouse_option
def list_(warehouse: Path | None) -> None:
    """List the tokens that count."""
    from warehouse import annotations

    held = annotations.tokens_held(warehouse_path(warehouse))
    rows = [[t.id, t.account, f"{t.made:%Y-%m-%d}", f"{t.ends:%Y-%m-%d}"] for t in held]
    table = Table(["token", "of", "made (UTC)", "until"], rows)
    none = "There is no token that counts. Make one: draftboard token new ADDRESS"
    show(table if rows else none)


@token.command()
@click.argument("number", metavar="TOKEN")
@author_option
@whole_warehouse_option
def revoke(number: str, author: str, warehouse: Path | None) -> None:
    """Take a token back, by the name under which it is listed; it counts no more at once."""
    from warehouse import annotations

    gone = annotations.revoke_token(warehouse_path(warehouse), number, author)
    click.echo(f"Token {gone.id} of {gone.account} counts no more.")


# --- ``draftboard mcp``: the questions of the API as tools for agents, over this process's own input.


@click.command()
@whole_warehouse_option
def mcp(warehouse: Path | None) -> None:
    """Serve the Model Context Protocol on standard input and output, for an agent that starts this.

    Its tools ask what the API is asked (runs, compare, decide, cost …), and questions in SQL under the
    limits of the page Data. All of them only read. A dashboard answers the same over HTTP, at /mcp. Needs: pip install 'draftboard[mcp]'.

    Example: draftboard mcp --warehouse /data/warehouse
    """
    try:
        from answers.doors.agents import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise InvalidInput(
            "The package of the protocol is not installed: pip install 'draftboard[mcp]'."
        ) from None
    root = warehouse_path(warehouse)
    with reading(root):
        serve(root)
