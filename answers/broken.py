"""Arms whose answers break where the baseline's do not, found once for all that are compared."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence.broken_answers import (
    BY,
    ENDLESS,
    FEWEST,
    IDS,
    KINDS,
    REPEATING,
    SHARE,
    SHORT,
    UNPARSED,
    by_texts,
    compared,
    compared_texts,
    settled,
)
from analysis.evidence.effects import study_numbers
from analysis.evidence.words import LIKELY
from analysis.frames import objects, records
from analysis.matching.comparison import Comparison
from answers.wording import percent
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.rows import Flag
from warehouse.store import Reader

#: What is only likely is told from this share of the answers on.
_WORTH_SAYING = 0.01
_ENDS = ["min", "p50", "p99", "max"]


@dataclass(frozen=True)
class BrokenAnswers:
    """An arm whose answers break at a load more often than the baseline's. ``kind``: short or endless, whose
    shares (0-1) are of the prompts that both completed, or repeating or unparsed, of all answers;
    ``settled``: so surely that the arm is no candidate, else it is likely. ``sentence`` has no full stop,
    ``told`` is the same with arm and load."""

    arm_id: int
    arm: str
    load: Load
    kind: str
    share_arm: float
    share_baseline: float
    settled: bool
    sentence: str
    told: str


#: Setting -> what breaks there, settled ones first.
Broken = dict[int, tuple[BrokenAnswers, ...]]


def suspects(reader: Reader, found: Comparison, filters: Filters) -> set[str]:
    """Return the cells of those arms, and of their baselines, whose answers may be broken by the ends of
    their lengths, or are by their texts: most need not be read. ``filters`` keep at least the cells
    compared."""
    known = queries.measurements(reader, filters, ["output_tokens"], _ENDS).to_pandas()
    ends = known.astype({"cell_id": object}).pivot(
        index="cell_id", columns="statistic", values="value"
    )
    pairs = _pairs(found)
    old, new = (ends.reindex(index=pairs[name], columns=_ENDS).reset_index() for name in IDS)
    longest = np.fmax(old["max"], new["max"])
    none_short = new["min"] >= np.maximum(FEWEST, SHARE * old["p50"])
    none_endless = (new["p99"] != longest) | (old["min"] == longest)
    by_length = pairs[~(none_short & none_endless).to_numpy()]
    doubtful = pd.concat([by_length, by_texts(found.pairs).query("new > old")])[BY]
    read = pairs.merge(doubtful.drop_duplicates(), on=BY)
    return {*read[IDS[0]], *read[IDS[1]]}


def _pairs(found: Comparison) -> pd.DataFrame:
    pairs = found.pairs.loc[found.pairs["load"] >= 0, [*BY, *IDS]].drop_duplicates()
    return pd.DataFrame(pairs.astype(dict.fromkeys(IDS, object)))


def broken(found: Comparison, answers: pd.DataFrame) -> Broken:
    """Return what breaks. ``answers``: as the query of that name returns them; arms without are taken
    as sound, and count among what a study compares."""
    if answers.empty:
        return {}
    pairs = _pairs(found)
    every = pairs[BY].drop_duplicates().merge(pd.DataFrame({"kind": KINDS}), how="cross")
    lengths = every.merge(compared(pairs, answers), on=[*BY, "kind"], how="left")
    texts = compared_texts(by_texts(found.pairs), answers)
    rows = pd.concat([lengths, texts], ignore_index=True).fillna({"p": 1.0, "tokens": 0})
    study = np.array(rows["setting"].map(study_numbers(found.keys)), dtype=np.int64)
    p = rows["p"].to_numpy()
    more = rows["share"] - rows["share_baseline"]
    rows = rows.assign(
        settled=settled(p, study), likely=(p <= 1 - LIKELY) & (more >= _WORTH_SAYING)
    )
    rows = rows.sort_values(["settled", "p"], ascending=[False, True], kind="stable")
    told: Broken = {}
    for row in records(rows[rows["settled"] | rows["likely"]]):
        told[row["setting"]] = (*told.get(row["setting"], ()), _broken(row, found))
    return told


def _broken(row: dict[str, Any], found: Comparison) -> BrokenAnswers:
    """Say it: ``12.5 % of the answers end after one token, none of the baseline's``."""
    most, base = int(row["tokens"]), row["share_baseline"]
    ends = {0: "are empty", 1: "end after one token"}.get(most, f"end after {most} tokens or fewer")
    does = {
        SHORT: ends, ENDLESS: f"run into the limit of {most:,} tokens",
        REPEATING: "repeat themselves", UNPARSED: "are no JSON",
    }[row["kind"]]  # fmt: skip
    rest = f"{percent(base, sign=False)} of" if base else "none of"
    said = f"{percent(row['share'], sign=False)} of the answers {does}, {rest} the baseline's"
    arm = str(found.keys["arm_label"].loc[(row["setting"], row["arm_id"])])
    load = found.loads[row["load"]]
    return BrokenAnswers(
        row["arm_id"], arm, load, str(row["kind"]), row["share"], base, row["settled"],
        said, f"{arm} breaks answers: at {load.text} {said}",
    )  # fmt: skip


def flagged(found: Comparison, told: Broken) -> Comparison:
    """Return the comparison with a flag on each pair whose arm's answers break."""
    flags: dict[tuple[int, int, Load], list[Flag]] = {}
    for setting, one in ((setting, one) for setting, ones in told.items() for one in ones):
        flag = Flag("broken_answers", "error" if one.settled else "warning", f"{one.sentence}.")
        flags.setdefault((setting, one.arm_id, one.load), []).append(flag)
    rows = zip(*(found.pairs[name].tolist() for name in (*BY, "flags")), strict=True)
    both = [(*flags.get((s, arm, found.loads[at]), ()), *old) for s, arm, at, old in rows]
    return replace(found, pairs=found.pairs.assign(flags=objects(both, found.pairs.index)))
