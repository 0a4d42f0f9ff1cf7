"""``draftboard dashboard``: starts Streamlit on this machine and says where."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from commands.options import warehouse_option


def app_file() -> Path:
    """The Streamlit entry file of the installed ``dashboard`` package."""
    spec = find_spec("dashboard")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations))) / "app.py"


@click.command()
@warehouse_option
@click.option("--port", default=8501, show_default=True, help="Port on localhost.")
def dashboard(warehouse: Path | None, port: int) -> None:
    """Open the dashboard on this machine; Ctrl-C ends it.

    Example: draftboard dashboard --port 8600
    """
    environment = dict(os.environ)
    if warehouse is not None:
        environment["DRAFTBOARD_WAREHOUSE"] = str(warehouse)
    click.echo(f"Dashboard: http://localhost:{port}  (Ctrl-C ends it)")
    command = [sys.executable, "-m", "streamlit", "run", str(app_file())]
    command += ["--server.port", str(port), "--server.address", "localhost"]
    try:
        raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)
    except KeyboardInterrupt:
        raise SystemExit(0) from None
