"""``draftboard reproduce``: measure the cell of a drop again, and say whether it comes out the same."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from commands.output import ended_by_signals
from runners.measuring.progress import Count, Progress
from runners.measuring.record import write_study_copy
from runners.measuring.resume import Now, StudyRun
from runners.measuring.run import run_here
from runners.repeating.original import Original, plan_again, prompts_again, read_original
from runners.serving.engines import Software, software
from runners.surroundings.layout import Layout, results_writable
from warehouse.errors import DraftboardError, RunnerError

_EPILOG = """\b
Example:
  draftboard reproduce results/laptop-lab/draft-k3/tp1/code/c4-r0@vllm0.32.0-guidellm0.8.1

\b
Exit status:
  0  it repeats
  1  a figure differs beyond chance
  2  nothing is settled, wrong usage, or an error
"""


@dataclass(frozen=True)
class Wanted:
    """How the cell is measured again."""

    results: Path
    repeats: int
    study: Path | None


@click.command(epilog=_EPILOG)
@click.argument("drop", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reproduced"),
    show_default=True,
    help="Folder of the repetition; launches that lie there are not measured again.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Server launches of the repetition. One alone cannot tell chance from a difference.",
)
@click.option(
    "--study",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The file that it was run from, where the drop keeps none or its paths lead nowhere.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def reproduce(drop: Path, as_json: bool, **given: Any) -> None:
    """Measure the cell of a result drop again and compare it with the original.

    The study, its prompts and the server's options are those that the drop kept; the comparison is
    made by the rules of every decision. The same command goes on after any interruption.
    """
    from commands.again import EXIT, compared, show

    try:
        original = read_original(drop, given["study"])
        launches = _measured(original, Wanted(given["results"], given["repeats"], given["study"]))
        found = compared(original.drop, original.siblings, launches)
    except DraftboardError as error:
        # Exit status 1 says "differs" here, so an error must not end with it.
        click.echo(f"draftboard: {error}", err=True)
        raise SystemExit(2) from None
    show(found, as_json)
    raise SystemExit(EXIT[found.status])


def _measured(original: Original, wanted: Wanted) -> list[Path]:
    """Measure the repetition and return its drops, all of them good. RunnerError where one is
    not."""
    layout = Layout(wanted.results.resolve(), original.study.name)
    if layout.root in original.drop.parents:
        raise RunnerError(
            f"{original.drop} lies in {layout.root} itself; take another folder with --results."
        )
    plan, cells = plan_again(original, wanted.repeats, layout.results)
    given = prompts_again(original, cells[0], layout)
    now = software(original.study)
    _say_other(original, now)
    asked = StudyRun(plan, layout, cells, now=Now(now, given.hash_of), given=given)
    with (
        ended_by_signals("stopped; the same command goes on from here"),
        results_writable(layout),
    ):
        to_run = asked.look().to_run
        count = len(asked.cells)
        launches = "1 launch" if count == 1 else f"{count} launches"
        _say(f"{launches} of {original.cell}: {len(to_run)} to run, into {asked.layout.root}")
        write_study_copy(original.study, original.study_file, asked.layout)
        with Progress(Count(len(to_run))) as shown:
            failed = run_here(asked, shown)
        if failed:
            raise RunnerError(
                f"{len(failed)} of {len(asked.cells)} launches failed, so nothing is compared: "
                f"{failed[0].problem.sentence}"
            )
    found = asked.look()
    return [folder for cell in cells if (folder := found.states[cell.key].folder) is not None]


def _say_other(original: Original, now: Software) -> None:
    then = original.software
    for what, one, other in (
        ("engine", then.engine_version, now.engine_version),
        ("GuideLLM", then.guidellm_version, now.guidellm_version),
    ):
        if None not in (one, other) and one != other:
            _say(f"warning: the {what} is {other} here and was {one}; it counts as a difference")


def _say(line: str) -> None:
    click.echo(line, err=True)
