"""Arms whose answers break where the baseline's do not, found once for all that are compared."""

from dataclasses import dataclass, field

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
    compared,
    compared_texts,
    settled,
)
from analysis.evidence.effects import study_numbers
from analysis.evidence.words import LIKELY
from analysis.frames import records
from analysis.matching.comparison import Comparison
from answers.wording import percent
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store import Reader

#: What is only likely is told from this share of the answers on.
_WORTH_SAYING = 0.01
_ENDS = ["min", "p50", "p99", "max"]


@dataclass(frozen=True)
class BrokenAnswers:
    """An arm whose answers break at a load more often than the baseline's. ``settled``: so surely that
    the arm is no candidate, else it is likely. ``deviation``: how many answers do what;
    ``sentence``: the same with arm and load. Neither has a full stop."""

    arm_id: int
    arm: str
    load: Load
    settled: bool
    deviation: str
    sentence: str


#: What is counted of answers, beside where.
_COUNTED = ["kind", "share", "share_baseline", "tokens", "p"]


@dataclass(frozen=True)
class KeptAnswers:
    """What is kept of the answers of whole studies: their ``settings``, and rows as ``counted`` returns
    them."""

    settings: frozenset[int] = frozenset()
    rows: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=[*BY, *_COUNTED]))


#: Setting -> what breaks there, settled ones first.
Broken = dict[int, tuple[BrokenAnswers, ...]]


def answers_in_doubt(
    reader: Reader, comparison: Comparison, texts: pd.DataFrame, filters: Filters
) -> pd.DataFrame:
    """Return the rows of the query ``answers`` of those arms, and of their baselines, whose answers may be
    broken by the ends of their lengths, or are by their texts: most need not be read. ``texts``: as
    ``by_texts`` returns them; ``filters`` keep at least the cells compared."""
    suspects = _suspects(reader, comparison, texts, filters)
    return pd.DataFrame(queries.answers(reader, suspects).to_pandas())


def _suspects(
    reader: Reader, comparison: Comparison, texts: pd.DataFrame, filters: Filters
) -> set[str]:
    pairs = _pairs(comparison)
    if pairs.empty:
        return set()
    measured = queries.measurements(reader, filters, ["output_tokens"], _ENDS).to_pandas()
    ends = measured.astype({"cell_id": object}).pivot(
        index="cell_id", columns="statistic", values="value"
    )
    old, new = (ends.reindex(index=pairs[name], columns=_ENDS).reset_index() for name in IDS)
    longest = np.fmax(old["max"], new["max"])
    none_short = new["min"] >= np.maximum(FEWEST, SHARE * old["p50"])
    none_endless = (new["p99"] != longest) | (old["min"] == longest)
    by_length = pairs[~(none_short & none_endless).to_numpy()]
    doubtful = pd.concat([by_length, texts.query("new > old")])[BY]
    read = pairs.merge(doubtful.drop_duplicates(), on=BY)
    return {*read[IDS[0]], *read[IDS[1]]}


def _pairs(comparison: Comparison) -> pd.DataFrame:
    pairs = comparison.pairs.loc[comparison.pairs["load"] >= 0, [*BY, *IDS]].drop_duplicates()
    return pd.DataFrame(pairs.astype(dict.fromkeys(IDS, object)))


def counted(comparison: Comparison, texts: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Count the answers that break: BY, kind, share, share_baseline, tokens and p, as ``compared`` and
    ``compared_texts`` return them, of every arm at every load. ``texts``: as ``by_texts`` returns
    them; ``answers``: as the query of that name does; arms without are taken as sound, and no rows are
    returned where there are none at all."""
    if answers.empty:
        return KeptAnswers().rows
    pairs = _pairs(comparison)
    every = pairs[BY].drop_duplicates().merge(pd.DataFrame({"kind": KINDS}), how="cross")
    lengths = every.merge(compared(pairs, answers), on=[*BY, "kind"], how="left")
    by_text = compared_texts(texts, answers)
    rows = pd.concat([lengths, by_text], ignore_index=True).fillna({"p": 1.0, "tokens": 0})
    return rows[[*BY, *_COUNTED]]


def broken(comparison: Comparison, rows: pd.DataFrame) -> Broken:
    """Return what breaks, of rows as ``counted`` returns them: all that a study compares."""
    if rows.empty:
        return {}
    rows = rows.sort_values([*BY, "kind"], ignore_index=True)
    study = np.array(rows["setting"].map(study_numbers(comparison.keys)), dtype=np.int64)
    p = rows["p"].to_numpy()
    more = rows["share"] - rows["share_baseline"]
    rows = rows.assign(
        settled=settled(p, study), likely=(p <= 1 - LIKELY) & (more >= _WORTH_SAYING)
    )
    rows = rows.sort_values(["settled", "p"], ascending=[False, True], kind="stable")
    labels = comparison.keys["arm_label"].to_dict()
    breaks: Broken = {}
    for row in records(rows[rows["settled"] | rows["likely"]]):
        most, base = int(row["tokens"]), row["share_baseline"]
        ends = {0: "are empty", 1: "end after one token"}.get(
            most, f"end after {most} tokens or fewer"
        )
        does = {
            SHORT: ends, ENDLESS: f"run into the limit of {most:,} tokens",
            REPEATING: "repeat themselves", UNPARSED: "are no JSON",
        }[row["kind"]]  # fmt: skip
        rest = f"{percent(base, sign=False)} of" if base else "none of"
        sentence = (
            f"{percent(row['share'], sign=False)} of the answers {does}, {rest} the baseline's"
        )
        arm = str(labels[row["setting"], row["arm_id"]])
        load = comparison.loads[row["load"]]
        text = f"{arm} breaks answers: at {load.text} {sentence}"
        breaks[row["setting"]] = (
            *breaks.get(row["setting"], ()),
            BrokenAnswers(row["arm_id"], arm, load, row["settled"], sentence, text),
        )
    return breaks
