"""The proof of a search: its winner and the runner-up as arms of their own, beside the baseline, in
fresh launches.

It is an ordinary study beside the search's own file, with everything but the arms and the number of
repeats as there. A search that went on and found another winner or runner-up proves them in a study of
their own: launches that were made for others are not beside theirs, and a decision is not to weigh both.
"""

import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from warehouse.arms import TABLE
from warehouse.errors import RunnerError

if TYPE_CHECKING:
    from answers.search.winner import Winner


def write_proof(study: Path, name: str, arms: "Sequence[Winner]", repeats: int) -> tuple[str, Path]:
    """Write the study of a proof where it is not there yet, and return its name and its file. More
    repeats than these, which somebody asked for there, stay. ``name``: of the study of the search.

    Raises RunnerError where the folder cannot be written.
    """
    said = yaml.safe_load(study.read_text(encoding="utf-8"))
    baseline = next(arm for arm in said["arms"] if not arm.get("speculative_config"))
    wanted = [baseline, *(_arm(said["arms"], one) for one in arms)]
    try:
        ending, known = _place(study, [arm["name"] for arm in wanted])
        text = yaml.safe_dump(
            said | {
                "name": f"{name}-{ending}", "repeats": max(repeats, known), "arms": wanted,
                "datasets": [_for_all(dataset) for dataset in said["datasets"]],
            },
            sort_keys=False, allow_unicode=True,
        )  # fmt: skip
        path = _named(study, ending)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.touch()
            shutil.copymode(study, path)  # It may hold what others shall not read.
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunnerError(
            f"The study of the proof cannot be written beside {study}: {error}; search with a copy "
            "of the study in a folder of yours."
        ) from None
    return f"{name}-{ending}", path


def _named(study: Path, ending: str) -> Path:
    return study.with_name(f"{study.stem}-{ending}.yaml")


def _place(study: Path, arms: list[str]) -> tuple[str, int]:
    """Return how the study of these arms' proof ends, the first that is free or is theirs, and the
    repeats that it has."""
    for turn in itertools.count(1):
        ending = "proof" if turn == 1 else f"proof-{turn}"
        path = _named(study, ending)
        if not path.exists():
            break
        there = yaml.safe_load(path.read_text(encoding="utf-8"))
        if [arm["name"] for arm in there["arms"]] == arms:
            return ending, int(there.get("repeats", 0))
    return ending, 0


def _arm(arms: list[dict[str, Any]], winner: "Winner") -> dict[str, Any]:
    """The arm of the study that the winner is of, with the winner's K."""
    mine = [arm for arm in arms if arm.get("speculative_config")
            and (winner.like == arm["name"] or winner.like.startswith(f"{arm['name']}-k"))]  # fmt: skip
    own = max(mine, key=lambda arm: len(arm["name"]))
    won = json.loads(winner.config or "{}")
    ks = {name: won[name] for name in ("num_speculative_tokens", TABLE) if name in won}
    rest = {name: value for name, value in own.items() if name != "num_speculative_tokens"}
    return rest | {"name": winner.name, "speculative_config": own["speculative_config"] | ks}


def _for_all(dataset: dict[str, Any]) -> dict[str, Any]:
    """A dataset without the names of arms, which are others here."""
    return {name: value for name, value in dataset.items() if name != "arms"}
