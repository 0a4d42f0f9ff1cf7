"""The answer for a manager: serve with speculation or not, up to which load, at what price.

One paragraph from the evidence that the other modules give, and the evidence under it. Nothing is
calculated here that another module does not define.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from analysis import tables
from analysis.frames import records, records_by
from analysis.significance.comparison import Comparison, in_study_order
from analysis.significance.confidence import Confidence
from analysis.significance.crossover import ALWAYS, ENDS, Crossover, crossovers
from analysis.significance.evidence import BETTER, OPEN, SAME, WORSE, standing
from analysis.significance.evidence_tables import (
    interval_text,
    shared_told,
    summary_told,
    verdict_text,
)
from analysis.significance.output_check import OutputCheck

Answer = Literal["yes", "yes, up to a load", "no", "undecided"]

#: The line that decides; the others only add to the picture.
DECISIVE = ("output_throughput", "mean")
#: What the paragraph says of the users' side, and in which words: (faster, slower).
FELT: dict[tuple[str, str], tuple[str, str]] = {
    ("request_latency", "p50"): ("the median request is {} faster", "the median request is {} slower"),
    ("itl", "p95"): (
        "the gap between tokens is {} shorter at P95", "the gap between tokens is {} longer at P95",
    ),
    ("ttft", "p95"): (
        "the first token comes {} sooner at P95", "the first token comes {} later at P95",
    ),
}  # fmt: skip
_BY = ["setting", "arm_id"]
Keys = tuple[int, int]


@dataclass(frozen=True)
class Decision:
    """About one setting (model, dataset, hardware …) and arm. ``paragraph``: for a manager;
    ``evidence``: the sentences under it; ``crossover``: where the gain ends."""

    setting: int
    arm_id: int
    name: str
    answer: Answer
    improvement: float | None
    paragraph: str
    evidence: tuple[str, ...]
    crossover: Crossover


@dataclass(frozen=True)
class _Ground:
    """All that is known of one setting and arm, a dict for each row. ``keys``: its facts, ``row``:
    the line that decides, ``compared``: one of its means in the comparison, ``pairs``: each once,
    ``means`` and ``levels``: the study's lines over all loads and at each of them."""

    keys: dict[str, Any]
    row: dict[str, Any]
    compared: dict[str, Any]
    pairs: list[dict[str, Any]]
    means: list[dict[str, Any]]
    levels: list[dict[str, Any]]
    ends: Crossover


def decisions(
    found: Comparison, sure: Confidence, outputs: Mapping[Keys, OutputCheck] | None = None
) -> list[Decision]:
    """One for each setting and arm with an output throughput; in a setting the best arm first.

    ``outputs``: the output check of (setting, arm_id), where one was made. A difference counts if
    it stands among all settings and arms that are decided here.
    """
    deciding = _line(sure.geomean, DECISIVE)
    stands = standing(deciding["p_value"].to_numpy(dtype="float64"))
    ordered = sorted(
        zip(_grounds(found, sure, deciding), stands, strict=True),
        key=lambda one: (one[0].row["setting"], -_or_zero(one[0].row["improvement"])),
    )
    made = [_decision(ground, bool(clear)) for ground, clear in ordered]
    return [_with_outputs(one, (outputs or {}).get((one.setting, one.arm_id))) for one in made]


def _grounds(found: Comparison, sure: Confidence, deciding: pd.DataFrame) -> Iterator[_Ground]:
    """One for each row of ``deciding``. The frames are parted once, not once for each."""
    keys = dict(zip(found.keys.index, records(found.keys), strict=True))
    ends = {(one.setting, one.arm_id): one for one in crossovers(sure.levels, *DECISIVE)}
    compared = records_by(found.geomean.drop_duplicates(_BY), _BY, _LEVELS)
    once = found.pairs.drop_duplicates("speculative_id")
    pairs = records_by(once, _BY, ("concurrency", "allowed", "flags"))
    means = records_by(in_study_order(sure.geomean), _BY, _MEANS)
    levels = records_by(in_study_order(sure.levels), _BY, ("p_value", "verdict"))
    for row in records(deciding):
        key = (row["setting"], row["arm_id"])
        yield _Ground(
            keys[key], row, compared[key][0], pairs[key], means[key], levels[key], ends[key]
        )


_LEVELS = ("concurrencies", "only_baseline", "only_speculative")
_MEANS = ("metric", "statistic", "improvement", "verdict", "shared")


def _decision(ground: _Ground, stands: bool) -> Decision:
    row, keys, ends = ground.row, ground.keys, ground.ends
    answer = _answer(row["verdict"], stands, ends)
    paragraph = " ".join(
        [_headline(answer, keys, row, ends), _gain(row), *_users(ground.means), *_caution(keys)]
    )
    return Decision(
        int(row["setting"]), int(row["arm_id"]), tables.setting_name(keys), answer,
        None if pd.isna(row["improvement"]) else float(row["improvement"]),
        paragraph, _evidence(ground), ends,
    )  # fmt: skip


def _with_outputs(one: Decision, outputs: OutputCheck | None) -> Decision:
    if outputs is None:
        return one
    return Decision(**{**vars(one), "evidence": (*one.evidence, *outputs.sentences)})


def _answer(verdict: str, stands: bool, ends: Crossover) -> Answer:
    if verdict == SAME:
        return "no"
    if not stands or verdict == OPEN:
        return "undecided"
    if verdict == WORSE or ends.kind == ALWAYS:
        return "no"
    return "yes, up to a load" if ends.kind == ENDS else "yes"


def _headline(answer: Answer, keys: dict[str, Any], row: dict[str, Any], ends: Crossover) -> str:
    arm, where = keys["arm_label"], f"{keys.get('model') or 'the model'} on {keys.get('dataset')}"
    if answer == "yes":
        return f"Yes: serve {where} with {arm}."
    if answer == "yes, up to a load":
        return f"Yes, up to about concurrency {ends.at:.0f}: serve {where} with {arm} below that."
    if answer == "no":
        return f"No: do not serve {where} with {arm}."
    return f"Not decided: whether to serve {where} with {arm} needs more evidence ({_need(row)})."


def _need(row: dict[str, Any]) -> str:
    if row["verdict"] in (BETTER, WORSE):
        return "alone it would count, but not among so many comparisons"
    return verdict_text(row).removeprefix(f"{OPEN}: ")


def _gain(row: dict[str, Any]) -> str:
    gain = row["improvement"]
    if pd.isna(gain):
        return "Output throughput cannot be compared."
    sure = interval_text(row["low"], row["high"])
    kinds = {"runs": f"95 % interval {sure}", "sampling": f"{sure} by sampling of requests alone"}
    told = kinds.get(row["covers"], "one repeat gives no interval")
    if row["verdict"] == SAME:
        return f"Over the measured loads output throughput is practically the same ({told})."
    size, hours = abs(gain), 1 - 1 / (1 + gain)
    word = "higher" if gain > 0 else "lower"
    cost = f"{abs(hours):.0%} {'fewer' if gain > 0 else 'more'} GPU hours for the same tokens"
    return f"Over the measured loads output throughput is {size:.0%} {word} ({told}): {cost}."


def _users(means: list[dict[str, Any]]) -> list[str]:
    """What a user feels, where the evidence allows to say it; a loss is never left out."""
    known = {(row["metric"], row["statistic"]): row for row in means}
    gains, losses = [], []
    for line, (faster, slower) in FELT.items():
        row = known.get(line, {"verdict": None})
        if row["verdict"] == BETTER:
            gains.append(faster.format(f"{row['improvement']:.0%}"))
        elif row["verdict"] == WORSE:
            losses.append(slower.format(f"{-row['improvement']:.0%}"))
    told = []
    if gains:
        told.append(f"For users, {_and(gains)}.")
    if losses:
        told.append(f"But {_and(losses)}.")
    return told


def _caution(keys: dict[str, Any]) -> list[str]:
    evidence = keys.get("evidence")
    if evidence in ("gpu", None) or pd.isna(evidence):
        return []
    return [f"These numbers are of kind {evidence!r}: they say nothing about the speed of a GPU."]


def _evidence(ground: _Ground) -> tuple[str, ...]:
    return (
        tables.levels_told(ground.compared),
        ground.ends.sentence,
        summary_told(ground.levels),
        *shared_told(ground.means),
        *(f"Allowed to differ: {name}." for name in tables.allowed_told(ground.pairs)),
        *(line[0].upper() + line[1:] for line in tables.flags_told(ground.pairs)),
    )


def _line(rows: pd.DataFrame, line: tuple[str, str]) -> pd.DataFrame:
    return rows[(rows["metric"] == line[0]) & (rows["statistic"] == line[1])]


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _or_zero(value: float) -> float:
    return 0.0 if pd.isna(value) else value


def as_json(one: Decision) -> dict[str, Any]:
    """Plain values."""
    return {
        "about": one.name,
        "answer": one.answer,
        "improvement": one.improvement,
        "paragraph": one.paragraph,
        "evidence": list(one.evidence),
        "crossover": {"kind": one.crossover.kind, "sentence": one.crossover.sentence},
    }
