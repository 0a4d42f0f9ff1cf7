"""A study as a search takes it, by what `draftboard plan` says of it."""

import itertools
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from warehouse.contract import TABLE
from warehouse.errors import InvalidInput, RunnerError

if TYPE_CHECKING:
    from answers.search.live import Planned
    from answers.search.winner import Winner


# --- The proof of a search: its winner and the runner-up as arms of their own, beside the baseline, in
# fresh launches.
#
# It is an ordinary study beside the search's own file, with everything but the arms and the number of
# repeats as there. A search that went on and found another winner or runner-up proves them in a study of
# their own: launches that were made for others are not beside theirs, and a decision is not to weigh both.


def write_proof(study: Path, name: str, arms: "Sequence[Winner]", repeats: int) -> tuple[str, Path]:
    """Write the study of a proof where it is not there yet, and return its name and its file. More
    repeats than these, which somebody asked for there, stay. ``name``: of the study of the search.

    Raises RunnerError where the folder cannot be written.
    """
    said = yaml.safe_load(study.read_text(encoding="utf-8"))
    baseline = next(arm for arm in said["arms"] if not arm.get("speculative_config"))
    wanted = [baseline, *(_proven_arm(said["arms"], one) for one in arms)]
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


def _proven_arm(arms: list[dict[str, Any]], winner: "Winner") -> dict[str, Any]:
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


# --- A study as a search takes it, by what `draftboard plan` says of it.


def planned(said: dict[str, Any], at_once: int = 1, one_machine: bool = True) -> "Planned":
    """Return what `draftboard plan --json` says, for so many launches side by side, on one machine or on
    one each. Raises InvalidInput for a study that cannot be searched."""
    from answers.search.live import Planned

    first = [launch for launch in said["launches"] if launch["repeat"] == 0]
    sizes = {launch["tensor_parallel_size"] for launch in said["launches"]}
    if len(sizes) != 1:
        raise InvalidInput(
            "A search compares arms on one number of GPUs, and this study has several tensor "
            "parallel sizes; give it a study for each."
        )
    if said.get("unlike"):
        raise InvalidInput(
            f"Results of {said['study']} lie there that were measured otherwise than the study would be "
            f"measured now ({', '.join(said['unlike'])}), and a search compares only what was measured "
            "alike; search into another folder of results."
        )
    costs, many = said["estimate"], len(said["launches"])
    return Planned(
        said["study"], _arms(first), _places(first), _ids(said["launches"]),
        costs["sequential_hours"] * 60 / many, said["attempts"], _usd_per_min(costs),
        {one["id"]: tuple(one["cells"]) for one in said["launches"]}, at_once, one_machine,
    )  # fmt: skip


def _ids(launches: list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return arm -> the ids of its launches, the first repeat first."""
    ordered = sorted(launches, key=lambda one: one["repeat"])
    return {
        name: tuple(one["id"] for one in ordered if one["arm"] == name)
        for name in dict.fromkeys(one["arm"] for one in launches)
    }


def _usd_per_min(costs: dict[str, Any]) -> float | None:
    """None where the study states no price."""
    usd, hours = costs["sequential_usd"], costs["sequential_hours"]
    return None if usd is None or not hours else float(usd / hours / 60)


def _arms(first: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The baseline, then all others by method and K. Raises InvalidInput without one baseline."""
    plain = (one["command"] for one in first if "--speculative-config" not in one["command"])
    usual: list[str] = next(plain, [])
    arms = sorted((_arm(one, usual) for one in first), key=lambda arm: (arm.family, arm.k))
    drafting = [arm for arm in arms if arm.k]
    if len(arms) - len(drafting) != 1 or not drafting:
        raise InvalidInput(
            "A search needs one baseline and at least one arm that drafts a stated number of tokens."
        )
    return (*(arm for arm in arms if not arm.k), *drafting)


def _arm(launch: dict[str, Any], usual: list[str]) -> Any:
    """An arm by the command line of its server; ``usual``: the baseline's. Raises InvalidInput where K
    is not fixed."""
    from analysis.search.space import Arm, family_of

    words = list(launch["command"])
    if "--speculative-config" not in words:
        return Arm(launch["arm"], "", 0)
    at = words.index("--speculative-config")
    config = json.loads(words[at + 1])
    del words[at : at + 2]
    k = config.pop("num_speculative_tokens", None)
    if k is None or TABLE in config:
        raise InvalidInput(
            f"The arm {launch['arm']} drafts no fixed number of tokens, so a search cannot place it; "
            "state num_speculative_tokens."
        )
    return Arm(launch["arm"], family_of(config, words, usual), int(k))


def _places(first: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The datasets and loads of every arm. Raises InvalidInput where one has others than the rest."""
    from analysis.search.space import Place

    by_arm = {one["arm"]: {dataset_and_load(key) for key in one["cells"]} for one in first}
    keys = set.union(*by_arm.values())
    found = {Place(dataset, _at_once(load)) for dataset, load in keys}
    for arm, own in by_arm.items():
        for dataset, load in sorted(keys - own):
            raise InvalidInput(
                f"A search compares all arms at the same datasets and loads, and {arm} is not measured on "
                f"{dataset} at {load.removeprefix('c')}: leave `arms` out of the study's datasets, or give "
                "the search a study for each set of arms."
            )
    return tuple(sorted(found, key=lambda one: (one.traffic, one.load)))


def dataset_and_load(key: str) -> tuple[str, str]:
    """Return ``code`` and ``c16`` of the cell ``draft-k3/tp1/code/c16-r0``."""
    *_, dataset, load = key.rpartition("-r")[0].split("/")
    return dataset, load


def _at_once(name: str) -> float:
    """The load behind a cell's name, ``c16``. Raises InvalidInput for one of another kind."""
    if not re.fullmatch(r"c\d+", name):
        raise InvalidInput(
            f"A search compares arms at so many requests at once, and the load {name} is none: two "
            "arms that keep up with a rate are equally fast at it; leave it out of the study."
        )
    return float(name[1:])
