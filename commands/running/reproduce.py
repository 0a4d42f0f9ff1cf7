"""``draftboard reproduce``: measure the cell of a drop again, and say whether it comes out the same."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.options import json_option
from commands.output import Table, ended_by_signals, show
from runners.measuring.progress import Count, Progress
from runners.measuring.record import write_study_copy
from runners.measuring.resume import Now, StudyRun
from runners.measuring.run import run_here
from runners.repeating import Original, plan_again, prompts_again, read_original
from runners.serving.engines import software
from runners.surroundings.layout import Layout, results_writable
from warehouse.errors import DraftboardError, InvalidInput, RunnerError
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from answers.again import Again

#: As ``draftboard gate``: fine, something is worse or other, not enough evidence.
_EXIT = {"repeats": 0, "differs": 1, "likely differs": 2, "open": 2}
_EPILOG = """\b
Example:
  draftboard reproduce results/laptop-lab/draft-k3/tp1/code/c4-r0@vllm0.32.0-guidellm0.8.1

\b
Exit status:
  0  it repeats
  1  a figure differs beyond chance
  2  nothing is settled, wrong usage, or an error
"""


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
@json_option
def reproduce(drop: Path, results: Path, repeats: int, study: Path | None, as_json: bool) -> None:
    """Measure the cell of a result drop again and compare it with the original.

    The study, its prompts and the server's options are those that the drop kept; the comparison is
    made by the rules of every decision. The same command goes on after any interruption.
    """
    from answers import again as words

    try:
        original = read_original(drop, study)
        found = _compared(original, _measured(original, results, repeats))
    except DraftboardError as error:
        # Exit status 1 says "differs" here, so an error must not end with it.
        show(f"draftboard: {error}", err=True)
        raise SystemExit(2) from None
    rows = [(d.setting, d.reference or "not stated", d.arm or "not stated") for d in found.differs]
    told = (
        f"{found.cell}: {found.headline}",
        words.stands_on(found),
        Table(words.HEADER, [words.row(line) for line in found.lines if words.is_shown(line)]),
        *found.outputs,
        Table(("measured otherwise", "original", "again"), rows) if rows else None,
        *found.doubts,
    )
    show(*([json_text(words.as_json(found))] if as_json else told))
    raise SystemExit(_EXIT[found.status])


def _compared(original: Original, launches: list[Path]) -> "Again":
    """Compare the drops in a warehouse that is gone afterwards. Raises InvalidInput where one cannot be
    read."""
    from answers.again import again
    from commands.intake import take_in
    from warehouse.store import Reader

    siblings = [*map(str, original.siblings)]
    with tempfile.TemporaryDirectory(prefix="draftboard-again-") as folder:
        root = Path(folder) / "warehouse"
        drops = (original.drop, *original.siblings, *launches)
        for rejection in take_in(drops, root, keep_text=True).rejected:
            raise InvalidInput(f"{rejection.path} cannot be compared: {rejection.reason}")
        with Reader(root) as reader:
            return again(reader, str(original.drop), siblings, [*map(str, launches)])


def _measured(original: Original, results: Path, repeats: int) -> list[Path]:
    """Measure the repetition and return its drops, all of them good. RunnerError where one is
    not."""
    layout = Layout(results.resolve(), original.study.name)
    if layout.root in original.drop.parents:
        raise RunnerError(
            f"{original.drop} lies in {layout.root} itself; take another folder with --results."
        )
    plan, cells = plan_again(original, repeats, layout.results)
    given = prompts_again(original, cells[0], layout)
    then, now = original.software, software(original.study)
    for what, was, here in (
        ("engine", then.engine_version, now.engine_version),
        ("GuideLLM", then.guidellm_version, now.guidellm_version),
    ):
        if None not in (was, here) and was != here:
            show(
                f"warning: the {what} is {here} here and was {was}; it counts as a difference",
                err=True,
            )
    asked = StudyRun(plan, layout, cells, now=Now(now, given.hash_of), given=given)
    with (
        ended_by_signals("stopped; the same command goes on from here"),
        results_writable(layout),
    ):
        to_run = asked.look().to_run
        launches = "1 launch" if len(cells) == 1 else f"{len(cells)} launches"
        show(
            f"{launches} of {original.cell}: {len(to_run)} to run, into {asked.layout.root}",
            err=True,
        )
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
