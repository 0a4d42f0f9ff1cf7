"""``draftboard runs reproduce``: measure the cell of a drop again, and say whether it comes out the same."""

import glob
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.terminal import Table, ended_by_signals, errors_end_with_2, json_option, show
from runners.measuring.progress import Count, Progress
from runners.measuring.record import write_study_copy
from runners.measuring.resume import StudyRun, differences
from runners.measuring.run import run_here
from runners.planning.loads import TextForm
from runners.planning.plan import RATES, Plan, PlannedCell, make_plan
from runners.planning.study_file import Study, read_study
from runners.serving.engines import software, software_of_record
from runners.surroundings.layout import (
    PROMPTS,
    RECORD,
    STUDY,
    Layout,
    json_object,
    part,
    results_writable,
)
from runners.texts import conversations, prompts
from warehouse.contract import prompt_set_hash
from warehouse.errors import RunnerError
from warehouse.json_text import json_text
from warehouse.secrets.shapes import REMOVED

if TYPE_CHECKING:
    from answers.again import Again


# --- The cell of a drop as it was asked for, and as it would be asked for again.


_REPEAT = re.compile(r"-r\d+$")
_RUN_ID = re.compile(r"(?P<study>[^/]+)/(?P<key>.+)#\d+")


@dataclass(frozen=True)
class Original:
    """A drop, its record, and the study that it came from."""

    drop: Path
    record: Mapping[str, Any]
    study: Study
    study_file: Path

    @property
    def cell(self) -> str:
        """The key of the cell without its repeat: ``baseline/tp1/code/c4``."""
        found = _RUN_ID.fullmatch(str(self.record.get("run_id")))
        return "" if found is None else _REPEAT.sub("", found["key"])

    @property
    def siblings(self) -> tuple[Path, ...]:
        """The other repeats of this cell with the same software that lie beside it."""
        name, _, software = self.drop.name.partition("@")
        stem = _REPEAT.sub("", name)
        found = []
        for folder in sorted(self.drop.parent.glob(f"{glob.escape(stem)}-r*")):
            leaf, _, other = folder.name.partition("@")
            repeat = _REPEAT.sub("", leaf) == stem != leaf and other == software
            if repeat and folder != self.drop and (folder / RECORD).is_file():
                found.append(folder)
        return tuple(found)


def read_original(drop: Path, study: Path | None = None) -> Original:
    """Read a drop. ``study``: a file to take instead of the copy in the drop.

    RunnerError where it is no drop of a good cell, or where nothing says how it was asked for.
    """
    drop = drop.resolve()
    record = _record(drop)
    path = drop / STUDY if study is None else study
    if not path.is_file():
        raise RunnerError(
            f"{drop} keeps no study (it is older than that, or somebody else's): name the file that it was run "
            "from with --study."
        )
    stated = read_study(path)
    if study is None:
        # The copy does not hold every value: this environment has those, or not.
        known = {k: value for k, value in stated.environment.items() if value != REMOVED}
        stated = stated.model_copy(update={"environment": known})
        # Paths in the study count from the folder in which it stood.
        said = part(record, "environment").get("folder")
        folder = None if said is None else Path(str(said)).expanduser()
        if folder is None or not folder.is_dir():
            raise RunnerError(
                f"Paths in the study of {drop} count from {said or 'a folder that it does not name'}, "
                f"which is not on this machine; put {STUDY} where they are right and name it with --study."
            )
        stated = stated.placed(folder)
    original = Original(drop, record, stated, path)
    if not original.cell:
        raise RunnerError(
            f"The record in {drop} does not say which cell of a study it is; only drops that "
            "`draftboard run` wrote can be measured again."
        )
    return original


def _record(drop: Path) -> dict[str, Any]:
    said = json_object(drop / RECORD)
    if said is None:
        raise RunnerError(f"{drop} is no result drop: it has no {RECORD} that can be read.")
    if said.get("status", "good") != "good":
        raise RunnerError(f"The cell in {drop} failed, so there is nothing to compare with.")
    if part(said, "environment").get("server") is not None:
        raise RunnerError(
            f"{drop} was measured on a server that somebody else ran; measure it again with "
            "`draftboard run STUDY --target-url …` and compare the two."
        )
    return said


def plan_again(
    original: Original, repeats: int, results: Path
) -> tuple[Plan, tuple[PlannedCell, ...]]:
    """Return the study with so many repeats, and the repeats of the cell: each is a launch of its
    own.

    What sweeps found for the original is put below ``results``, so that it is not found anew.
    RunnerError where the study does not have the cell, or asks for something else under its name.
    """
    # In the folder of the study's results, if the drop lies there still.
    above = [".."] * (original.cell.count("/") + 1)
    rates = original.drop.joinpath(*above, RATES)
    if rates.is_dir():
        shutil.copytree(rates, results / original.study.name / RATES, dirs_exist_ok=True)
    plan = make_plan(original.study.model_copy(update={"repeats": repeats}), results)
    cells = tuple(cell for cell in plan.cells if _REPEAT.sub("", cell.key) == original.cell)
    if not cells:
        raise RunnerError(
            f"The study {original.study_file} has no cell {original.cell}; name the file that "
            f"{original.drop} was run from with --study."
        )
    differ = differences(original.record, cells[0].identity, None)
    if differ:
        raise RunnerError(
            f"The study {original.study_file} asks for {original.cell} otherwise than it was "
            f"measured (they differ in: {', '.join(differ)}); name the file that it was run from."
        )
    return plan, cells


# --- The prompts of a drop once more: its own texts where it kept them, else the dataset's.


def prompts_again(original: Original, cell: PlannedCell, layout: Layout) -> prompts.PromptFiles:
    """Return the prompts with which the cell is asked again. RunnerError where they would be other
    prompts."""
    form = original.study.dataset(cell.dataset).form
    path = layout.prompts(cell.dataset, cell.load).absolute()
    rows, kept = _kept(original, path, form)
    files = prompts.PromptFiles(original.study, layout, kept)
    now, then = files.hash_of(cell), original.record.get("prompt_set_hash")
    if now is None:
        files.of(cell)  # Says which dataset cannot be read, and why.
    if then is not None and now != then:
        origin = part(part(original.record, "environment"), "dataset")
        names = ", ".join(f"{name} {value}" for name, value in origin.items())
        raise RunnerError(
            f"{'The kept texts' if kept else f'The dataset {cell.dataset}'} gave other prompts "
            f"({now}) than the cell was measured with ({then}){names and f', from {names}'}; what they "
            "gave then has to be put back."
        )
    if kept is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = [row | conversations.columns_of(row[conversations.PROMPT], form) for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in columns), encoding="utf-8")
    return files


def _kept(
    original: Original, file: Path, form: TextForm
) -> tuple[list[dict[str, Any]], prompts.PromptFile | None]:
    # The rows that a drop kept, as the load generator read them, and the file that they make; None
    # where it kept the hashes of texts alone, or nothing.
    path, prompt = original.drop / PROMPTS, conversations.PROMPT
    try:
        stored = json.loads(path.read_bytes())
        rows = [
            {name: value for name, value in {prompt: row[prompt], **row}.items() if name != "hash"}
            for row in stored["prompts"]
            if prompt in row
        ]
        warm_up = tuple(row[prompt] for row in stored["warm_up"] if prompt in row)
    except FileNotFoundError:
        return [], None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunnerError(f"{path} cannot be read ({error}).") from None
    style = original.study.request.format
    hashes = (conversations.prompt_hashes(str(row[prompt]), style, form) for row in rows)
    hashed = prompt_set_hash([one for each in hashes for one in each])
    if hashed is None:
        return [], None
    return rows, prompts.PromptFile(file, hashed, warm_up, form)


# --- The command: the repetition is measured and compared with the original.


#: As ``draftboard gate``: fine, something is worse or other, not enough evidence.
_EXIT = {"repeats": 0, "differs": 1, "likely differs": 2, "open": 2}
_EPILOG = """\b
Example:
  draftboard runs reproduce results/laptop-lab/draft-k3/tp1/code/c4-r0@vllm0.32.0-guidellm0.8.1

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

    with errors_end_with_2():
        original = read_original(drop, study)
        found = _compared(original, _measured(original, results, repeats))
    rows = [(d.setting, d.reference or "not stated", d.arm or "not stated") for d in found.differs]
    told = (
        f"{found.cell}: {found.headline}",
        words.stands_on(found),
        Table(words.HEADER, [words.row(line) for line in found.lines if words.is_shown(line)]),
        *found.outputs,
        Table(("measured otherwise", "original", "again"), rows) if rows else None,
        *found.doubts,
    )
    show(*([json_text({"schema_version": 1, **asdict(found)})] if as_json else told))
    raise SystemExit(_EXIT[found.status])


def _compared(original: Original, launches: list[Path]) -> "Again":
    """Compare the drops. Raises InvalidInput where one cannot be read."""
    from answers.again import again
    from commands.keeping.ingest import reading_drops

    siblings = [*map(str, original.siblings)]
    with reading_drops((original.drop, *original.siblings, *launches)) as reader:
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
    then, now = software_of_record(original.record), software(original.study)
    for what, was, here in (
        ("engine", then.engine_version, now.engine_version),
        ("GuideLLM", then.guidellm_version, now.guidellm_version),
    ):
        if None not in (was, here) and was != here:
            show(
                f"warning: the {what} is {here} here and was {was}; it counts as a difference",
                err=True,
            )
    asked = StudyRun(plan, layout, cells, now, given)
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
