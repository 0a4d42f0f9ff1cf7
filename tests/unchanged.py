"""Are the recorded decisions unchanged? ``python -m tests.unchanged FOLDER``: kept there the first
time, and from then on compared byte by byte with what the commands say.

Asked are the examples, what lies in every folder of ``--drops``, and random studies of the truth
suite, written as drops. To compare with another state of the tree, keep its answers first:
``git worktree add ../before REVISION``, then the same command in there.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from draftboard import cli
from tests.truth.random_drops import write_random_study
from tests.truth.random_studies import FamilyName, random_studies

QUESTIONS = {
    "verdict.json": "verdict --json",
    "verdict.txt": "verdict --all",
    "compare.json": "compare --json",
    "cost.json": "cost --json",
    "tune.json": "tune --json",
    "slo.json": "slo ttft:p95<500ms --json",
    "runs.json": "runs --json",
}
#: Of so many random studies in all, the share of a family.
SHARES: dict[FamilyName, float] = {"any": 0.5, "crossovers": 0.25, "any, rates": 0.25}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--drops", multiple=True, type=click.Path(exists=True, path_type=Path))
@click.option("--studies", default=200, show_default=True, help="Random studies.")
def main(folder: Path, drops: tuple[Path, ...], studies: int) -> None:
    """Keep the answers in FOLDER, or compare them with those that it holds."""
    kept, changed = folder.exists(), 0
    with tempfile.TemporaryDirectory() as scratch:
        sources = {"examples": Path("examples"), **{place.name: place for place in drops}}
        if studies:
            sources["random"] = Path(scratch, "drops")
            _write(sources["random"], studies)
        for source, place in sources.items():
            for name, text in _answers(place, Path(scratch, source)):
                path = folder / source / name
                if not kept:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
                elif not path.exists() or path.read_text(encoding="utf-8") != text:
                    changed += 1
                    path.with_suffix(".now" + path.suffix).write_text(text, encoding="utf-8")
                    click.echo(
                        f"{source}: {name} changed: see {path.with_suffix('.now' + path.suffix)}"
                    )
    click.echo(f"kept in {folder}" if not kept else f"{changed} changed" if changed else "equal")
    sys.exit(bool(changed))


def _write(folder: Path, count: int) -> None:
    """Random studies as drops: a folder each."""
    for family, share in SHARES.items():
        for study in random_studies(family, round(count * share), seed=33):
            write_random_study(study, folder / family / study.name)


def _answers(place: Path, warehouse: Path) -> Iterator[tuple[str, str]]:
    """What every question says of a folder of drops; a refusal is an answer."""
    CliRunner().invoke(cli, ["ingest", str(place), "--warehouse", str(warehouse)])
    for name, words in QUESTIONS.items():
        result = CliRunner().invoke(cli, [*words.split(), "--warehouse", str(warehouse)])
        text = f"{result.stdout}{result.exception or ''}\n".replace(str(warehouse.parent), "")
        yield name, _without_times(text) if name == "runs.json" else text


def _without_times(runs: str) -> str:
    """The cells in an order of its own, without when they were ingested: another time each time."""
    cells = [{**cell, "ingested_at": None} for cell in json.loads(runs)]
    return json.dumps(sorted(cells, key=json.dumps), indent=1)


if __name__ == "__main__":
    main()
