"""``draftboard release``: the same cells with two releases of an engine, launch by launch in turns, before an
upgrade."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.gate import EXIT
from commands.terminal import (
    Table,
    budget_options,
    ended_by_signals,
    errors_end_with_2,
    json_option,
    show,
    show_json,
)
from runners.measuring.progress import Count, FailedCell, Progress
from runners.measuring.record import write_study_copy
from runners.measuring.resume import StudyRun
from runners.measuring.run import run_here
from runners.planning.plan import make_plan, refusals
from runners.planning.study_file import Study, read_study
from runners.serving.engines import engine_of, software, tool
from runners.surroundings.layout import Layout, results_writable
from runners.texts.prompts import PromptFiles
from warehouse.errors import InvalidInput, RunnerError

if TYPE_CHECKING:
    from answers.trend.upgrade import Upgrade

_EPILOG = """\b
Example:
  draftboard release studies/laptop-lab-quick.yaml --against vllm=.lab/vllm-0.33.0 --results results

\b
Exit status:
  0  fine: no figure is worse by more than its budget
  1  a regression is shown
  2  nothing is settled, wrong usage, or an error
"""


@click.command(epilog=_EPILOG)
@click.argument("study", type=click.Path(path_type=Path))
@click.option(
    "--against", required=True, metavar="ENGINE=WHERE",
    help="The newer environment of the study's engine: its folder, its executable, or a version "
    "that an environment beside the study's own has, as vllm=0.33.0.",
)  # fmt: skip
@click.option(
    "--results", type=click.Path(path_type=Path, file_okay=False), required=True,
    help="Folder of the results of both; good cells that lie there are not measured again.",
)  # fmt: skip
@click.option(
    "--repeats", type=click.IntRange(min=1),
    help="Server launches of each arm with either [the study's, at least 3].",
)  # fmt: skip
@budget_options
@json_option
def release(study: Path, results: Path, as_json: bool, open_exit: int, **given: Any) -> None:
    """Measure a study with its own engine and with a newer release of it, launch by launch in turns, and say
    what the upgrade does to the baseline, to each arm, to the gains, to acceptance and to the answers.

    The same command goes on after any interruption. What it measures can be ingested as any result.
    """
    from analysis.nightly.regressions import budgets
    from answers.trend.upgrade import upgrade_rows

    with errors_end_with_2():
        allowed = budgets(given["max_regression"])
        old = read_study(study)
        old = old.model_copy(update={"repeats": given["repeats"] or max(old.repeats, 3)})
        new = upgraded(old, given["against"])
        found = _compared(_measured(study, results, old, new), allowed)
    if as_json:
        show_json({"schema_version": 1, **asdict(found)})
    else:
        table = Table(*upgrade_rows(found))
        show(found.paragraph, *found.doubts, table if table.rows else None)
    status = EXIT[found.status]
    raise SystemExit(open_exit if status == 2 else status)


def upgraded(study: Study, against: str) -> Study:
    """Return the study with the newer environment. RunnerError where there is none, or where it holds the
    release that the study has already."""
    kind = engine_of(study).tool
    named, equals, where = against.partition("=")
    if named != kind or not equals or not where:
        raise RunnerError(
            f"--against {against} names no environment of this study's engine; write "
            f"--against {kind}=FOLDER, or {kind}=VERSION."
        )
    own, path = study.executable(kind), Path(where).expanduser()
    if path.is_dir():
        path = path / "bin" / kind
    elif not path.exists() and own is not None:
        # An environment is a folder with bin/; others lie beside it.
        beside = sorted(Path(own).absolute().parent.parent.parent.glob(f"*/bin/{kind}"))
        held = (each for each in beside if tool(_with(study, each), kind).version == where)
        path = next(held, path)
    if not path.is_file():
        raise RunnerError(
            f"No environment holds {kind} {where}, neither there nor beside {own or 'the study'}; make one "
            f"(python3 -m venv FOLDER && FOLDER/bin/pip install {kind}==…) and name its folder."
        )
    new = _with(study, path.absolute())
    versions = [tool(each, kind) for each in (study, new)]
    unknown = next((each for each in versions if each.version is None), None)
    if unknown is not None:
        raise RunnerError(f"An environment does not say its version: {unknown.problem}.")
    if versions[0].version == versions[1].version:
        raise RunnerError(
            f"Both environments hold {kind} {versions[0].version}, so there is nothing to compare; name "
            "one with another release."
        )
    return new


def _with(study: Study, executable: Path) -> Study:
    named = study.executables.model_copy(update={engine_of(study).tool: str(executable)})
    return study.model_copy(update={"executables": named})


@dataclass
class _BothCount(Count):
    """Counts a cell once for either release: its key is the same."""

    version: str = ""

    def ended(self, key: str, good: bool) -> None:
        """Count one more cell of this version as settled."""
        super().ended(f"{key} {self.version}", good)


def _measured(path: Path, results: Path, old: Study, new: Study) -> tuple[StudyRun, StudyRun]:
    """Measure what is missing of both, launch by launch in turns. RunnerError where one cell is not good in
    the end."""
    layout = Layout(results.resolve(), old.name)
    runs = []
    for study in (old, new):
        plan = make_plan(study, layout.results)
        for sentence in refusals(plan, tool(study, "guidellm").version):
            raise RunnerError(sentence)
        files = PromptFiles(study, layout)
        runs.append(StudyRun(plan, layout, plan.cells, software(study), files))
    failed = list[FailedCell]()
    with (
        ended_by_signals("stopped; the same command goes on from here"),
        results_writable(layout),
    ):
        missing = sum(len(run.look().to_run) for run in runs)
        launches = sum(len(run.plan.launches) for run in runs)
        show(f"{launches} launches by turns: {missing} cells to run, into {layout.root}", err=True)
        write_study_copy(old, path, layout)
        count = _BothCount(missing)
        with Progress(count) as shown:
            for number, both in enumerate(zip(*(run.plan.launches for run in runs), strict=True)):
                turns = [*zip(runs, both, strict=True)]
                # Whoever begins takes turns as well, so that a drift falls on both.
                for run, launch in turns if number % 2 == 0 else reversed(turns):
                    count.version = run.software.name
                    failed += run_here(replace(run, cells=launch.cells), shown)
    if failed:
        raise RunnerError(
            f"{len(failed)} cells failed, so nothing is compared: {failed[0].problem.sentence} Run the "
            "same command again once that is mended; what is good is kept."
        )
    return runs[0], runs[1]


def _compared(runs: tuple[StudyRun, StudyRun], allowed: Any) -> "Upgrade":
    """Compare the drops of both. Raises InvalidInput where one cannot be read, or none has a partner."""
    from answers.trend.upgrade import upgrade
    from commands.keeping.ingest import reading_drops
    from warehouse.filters import Filters

    drops = [
        state.folder
        for run in runs
        for state in run.look().states.values()
        if state.folder is not None
    ]
    before, after = (str(run.software.engine_version) for run in runs)
    with reading_drops(drops) as reader:
        found = upgrade(reader, Filters(), before, after, allowed)
    if found is None:
        raise InvalidInput(
            f"No cell of {before} has a partner of {after} that it may be compared with."
        )
    return found
