"""``draftboard dashboard``, or ``serve``: starts Streamlit, on this machine only unless told otherwise.

The dashboard itself decides who sees what (``dashboard/access.py``), however it is started; here a
server that would show nothing to anybody is refused before it starts.
"""

import ipaddress
import os
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import click

from commands.options import warehouse_option
from warehouse.errors import InvalidInput

#: The name in ``dashboard.access.OPEN``, which this package may not import.
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
    _check_secrets()
    if not (_is_local(host) or _OPEN in environment or _login_is_set_up()):
        raise InvalidInput(
            f"Anybody who reaches {host} would see the results; set up a login (docs/sharing.md), "
            "say --open-to-everyone viewer, or leave out --host."
        )
    click.echo(f"Dashboard: http://{_shown(host)}:{port}  (Ctrl-C ends it)")
    click.echo(f"API:       http://{_shown(host)}:{port}/api/v1/openapi.json")
    command = [sys.executable, "-m", "streamlit", "run", str(app_file()), *_ALWAYS]
    command += [f"--server.port={port}", f"--server.address={host}", *_allowed(names)]
    sys.stdout.flush()
    # In the place of this process: whoever stops it (a service manager, Ctrl-C) stops the server.
    os.execve(sys.executable, command, environment)


def _allowed(names: tuple[str, ...]) -> list[str]:
    """Return the option of Streamlit for the host names that were given; without names none, the
    dashboard knows the local ones."""
    return [f"--server.allowedHosts={name}" for name in (*_LOCAL, *names)] if names else []


def _shown(host: str) -> str:
    return "localhost" if host in ("0.0.0.0", "::") else host  # noqa: S104 - only shown


def _is_local(host: str) -> bool:
    if host in _LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_secrets() -> None:
    """Check that Streamlit's secrets can be read; Streamlit itself would end with a traceback."""
    for place in _places_of_secrets():
        try:
            Path(place).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InvalidInput(
                f"The secrets in {place} cannot be read ({error.strerror}); let the user that runs "
                "the dashboard read the file, or take it away."
            ) from None


def _login_is_set_up() -> bool:
    """Return whether a file of Streamlit's secrets has a login; the dashboard checks that it is
    right."""
    return any(_has_login(Path(place)) for place in _places_of_secrets())


def _places_of_secrets() -> list[str]:
    said = os.environ.get("STREAMLIT_SECRETS_FILES", "").split()
    folders = (Path.home(), Path.cwd(), app_file().parent)
    return said or [str(folder / ".streamlit" / "secrets.toml") for folder in folders]


def _has_login(place: Path) -> bool:
    try:
        return "auth" in tomllib.loads(place.read_text(encoding="utf-8"))
    except OSError:
        return False
    except ValueError:
        # What cannot be understood: the dashboard says so, and lets nobody in.
        return True
