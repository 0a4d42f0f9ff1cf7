"""Whether real drops, ``ingest`` and the command say what the functions say of the same studies."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from answers.decide.values import MapLevel
from commands.decide import verdict
from commands.keeping.ingest import ingest
from tests.truth import decisions
from tests.truth.deciding import Decided, decided
from tests.truth.drops import write_studies
from tests.truth.row import Row, share
from tests.truth.studies import Drawn, Family, drawn

THROUGH_FILES = 20
#: Times in a report are unix seconds: a cell of half a second is known to about a millionth.
CLOSE = 1e-4
_NUMBERS = ("improvement", "low", "high", "adjusted_low", "adjusted_high")


def families() -> Iterator[Family]:
    """Those of the decisions."""
    yield from decisions.families()


def rows(trials: int) -> list[Row]:
    """All rows of the table."""
    return [row for family in families() for row in rows_of(family, trials)]


def rows_of(family: Family, trials: int) -> list[Row]:
    """Twenty studies of a family, however many trials the other rows have."""
    studies = drawn(family, min(trials, THROUGH_FILES))
    expected = list(decided(studies))
    with tempfile.TemporaryDirectory() as folder:
        told = commanded(studies, Path(folder))
    alike = [_same(one, told.get(place)) for place, one in enumerate(expected)]
    return [
        share(family.name, "through files: the same decision", sum(alike), len(alike), at_least=1.0)
    ]


def commanded(studies: Drawn, folder: Path) -> dict[int, dict[str, Any]]:
    """Number of the study -> its decision in ``draftboard verdict --json``."""
    write_studies(studies, folder / "results")
    warehouse = str(folder / "warehouse")
    for words in _ingests(studies, folder / "results"):
        _run(ingest, [*words, "--warehouse", warehouse])
    found = json.loads(_run(verdict, ["--json", "--warehouse", warehouse]))["decisions"]
    return {int(one["model"].rsplit("-")[-1]): one for one in found}


def _ingests(studies: Drawn, results: Path) -> Iterator[list[str]]:
    """Drops say all; files of ``vllm bench serve`` need their arm and study stated."""
    if studies.family.kind != "vllm bench":
        yield [str(results)]
        return
    for arm in sorted(results.glob("study-*/arm-*")):
        method = "none" if arm.name == "arm-0" else "draft_model"
        facts = (f"spec_method={method}", f"study={arm.parent.name}")
        yield [str(arm), *(word for fact in facts for word in ("--set", fact))]


def _run(command: Any, words: list[str]) -> str:
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    if result.exit_code:
        raise RuntimeError(f"{command.name} ended with {result.exit_code}: {result.output[-500:]}")
    return result.stdout


def _same(one: Decided, told: dict[str, Any] | None) -> bool:
    mine = one.decision
    if told is None or told["answer"] != mine.answer or len(told["loads"]) != len(mine.levels):
        return False
    return all(
        _same_level(level, other) for level, other in zip(mine.levels, told["loads"], strict=True)
    )


def _same_level(level: MapLevel, told: dict[str, Any]) -> bool:
    words = (level.difference.word, level.difference.metric, level.num_speculative_tokens)
    pairs = [(getattr(level.difference, name), told[name]) for name in _NUMBERS]
    return words == (told["word"], told["metric"], told["num_speculative_tokens"]) and all(
        a is not None and b is not None and abs(a - b) < CLOSE for a, b in pairs
    )
