"""``draftboard nightly``: one command for any timer; the exit status says what the night came to."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import yaml

from commands.terminal import ended_by_signals, judging_options, show_table, whole_warehouse_option
from warehouse.catalogue import duration
from warehouse.errors import DraftboardError, StudyError
from warehouse.json_text import json_text
from warehouse.storage.cache import warehouse_path

#: The address of the dashboard, for links in messages.
LINK_VARIABLE = "DRAFTBOARD_LINK_BASE"
FAILED, RUNNING = 4, 5

_EPILOG = """\b
Example:
  draftboard nightly studies/laptop-lab.yaml --results results --max-hours 3

\b
Exit status:
  0  fine: nothing became worse by more than its budget
  1  a regression
  2  not enough evidence (--open-exit), or wrong usage
  3  incomplete: the budget was spent, or the night was not finished in time
  4  a stage failed
  5  another night is running in this results folder; nothing was started

\b
Messages go to DRAFTBOARD_NOTIFY_URLS: addresses as Apprise knows them, separated by spaces.
"""


@click.command(epilog=_EPILOG)
@click.argument("study", required=False, type=click.Path(path_type=Path))
@click.argument("run_arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- RUN OPTIONS]")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Folder of the results; each night has its own under nights/.",
)
@whole_warehouse_option
@click.option("--max-hours", type=click.FloatRange(min=0), help="Stop measuring after so long.")
@click.option(
    "--max-usd",
    type=click.FloatRange(min=0),
    help="Stop measuring when the node has cost so much, by the study's price.",
)
@judging_options
@click.option(
    "--link-base",
    metavar="URL",
    help=f"Address of the dashboard, for links in messages [{LINK_VARIABLE}].",
)
@click.option("--notify-dry-run", is_flag=True, help="Print messages instead of sending them.")
@click.option("--digest", is_flag=True, help="One message a day, also when nothing happened.")
@click.option("--again", is_flag=True, help="Begin another night although this one is done.")
@click.option("--history", is_flag=True, help="List the nights, of STUDY or of all; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def nightly(study: Path | None, as_json: bool, history: bool, **given: Any) -> None:
    """Measure a night of a study, take it in, judge it, tell people, write a report.

    A night that was interrupted is finished by the next call; one that is done is left alone. What
    stands behind `--` goes to `draftboard run`, e.g. `-- --on slurm`.
    """
    from nightly.nights import AnotherNight, markdown, night_lock

    if study is None and not history:
        raise click.UsageError("Name a study file; or list the nights with --history.")
    try:
        if study is None or history:
            _list(study, given["warehouse"], as_json)
            return
        from nightly.messages import Settings
        from nightly.stages import conduct
        from warehouse.beside import NightLimits

        name = name_of(study)
        settings = Settings(
            study=study, results=given["results"], warehouse=warehouse_path(given["warehouse"]),
            echo=_echo, limits=NightLimits(hours=given["max_hours"], usd=given["max_usd"]),
            max_regression=given["max_regression"], since=given["since"],
            open_exit=given["open_exit"], run=given["run_arguments"],
            link=(given["link_base"] or os.environ.get(LINK_VARIABLE) or "").rstrip("/"),
            dry_run=given["notify_dry_run"], digest=given["digest"], again=given["again"],
        )  # fmt: skip
        with (
            ended_by_signals("nightly: stopped; the next call goes on from here"),
            night_lock(settings.results, name),
        ):
            summary = conduct(settings, name)
        click.echo(summary.model_dump_json() if as_json else markdown(summary).rstrip())
        assert summary.exit_status is not None
    except DraftboardError as error:
        # Exit status 1 says "regression" here, so an error must not end with it.
        click.echo(f"draftboard: {error}", err=True)
        raise SystemExit(RUNNING if isinstance(error, AnotherNight) else FAILED) from None
    except OSError as error:
        click.echo(
            f"draftboard: What the night did cannot be kept ({error.strerror or error}: "
            f"{error.filename}); make room or mend the permissions and call it again, it goes on "
            "from there.", err=True,
        )  # fmt: skip
        raise SystemExit(FAILED) from None
    raise SystemExit(summary.exit_status)


def name_of(study: Path) -> str:
    """Return the name that a study file states; StudyError where it states none."""
    try:
        said = yaml.safe_load(study.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", None) or "it is no YAML"
        raise StudyError(f"The study {study} cannot be read ({why}); check the path.") from None
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise StudyError(f"{study} states no name that could be a folder's; add name: … to it.")
    return name


def _list(study: Path | None, warehouse: Path | None, as_json: bool) -> None:
    from answers.trend.nights import troubles
    from nightly.nights import cells, cost, sized
    from warehouse import beside

    found = beside.nights_history(warehouse_path(warehouse))
    name = None if study is None else name_of(study)
    chosen = [night for night in found.nights if name in (None, night.study)]
    if as_json:
        rows = [night.model_dump(mode="json") for night in chosen]
        click.echo(json_text({"nights": rows, "damaged": list(found.damaged)}))
        return
    for sentence in found.damaged:
        click.echo(sentence, err=True)
    if not chosen:
        click.echo("No night yet. Begin one with: draftboard nightly STUDY.yaml --results results")
        return
    show_table(
        ("night", "study", "outcome", "cells", "took", "measured", "worse", "what failed"),
        [
            [
                night.night, night.study, night.outcome, cells(night),
                duration(night.seconds), cost(night).removeprefix("measured for "),
                sized(night.regressions[0]) if night.regressions else "",
                (troubles(night) or [""])[0],
            ]
            for night in chosen
        ],
    )  # fmt: skip


def _echo(text: str) -> None:
    """Print what stages say; a terminal that is gone must not end the night."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
