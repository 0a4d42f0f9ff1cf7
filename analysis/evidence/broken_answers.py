"""Whether an arm's answers break where its baseline's do not: speed with broken answers decides nothing.

Two ways are counted from the lengths of answers to the same prompts: those that end at once (fewer than
three tokens, or fewer than a tenth of the baseline's median), and those that run into the limit (as long as
the longest of both arms; where nothing limits them there are one or two of these).

The unit is the prompt, not the request: an arm that breaks the answer to a prompt may do so in every launch.
For each prompt the arm's broken answers are counted over all launches, less the baseline's, and were both
arms alike, each of these counts would as likely have the other sign: the chance of so large a sum is exact
and one-sided, and with one launch it is McNemar's (1947). Where reports do not keep prompts, the n-th
request of two cells counts as the same.

Two more are counted from texts: answers that repeat themselves, and answers that are no JSON where at least half
of the baseline's are. Of these only the share of each cell is kept, so the shares, averaged over the launches, are
taken as those of the prompts of one launch, and Fisher's exact test (1935) is one-sided.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln

from analysis.frames import declared
from warehouse.rows import COMPLETED

#: What the counts are of: a setting's arm at one load.
BY = ["setting", "arm_id", "load"]
IDS = ["baseline_id", "speculative_id"]
SHORT, ENDLESS = KINDS = ("short", "endless")
REPEATING, UNPARSED = "repeating", "unparsed"
#: Those two by what was measured of the texts of a cell's answers before they were dropped.
TEXTS = {"repeating_answers": REPEATING, "json_answers": UNPARSED}
#: An answer of fewer tokens than this, or than this share of the baseline's median, ends at once.
FEWEST, SHARE = 3, 0.1
#: Share of studies in which an arm may be settled to break answers that breaks none.
_WRONG = 0.01


def compared(pairs: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Count the broken answers of every arm at every load: return a row for each of BY and ``kind`` with
    ``share`` and ``share_baseline`` (0-1, of the prompts that both completed), ``tokens`` (of the longest
    answer of the arm that is counted) and ``p`` (one-sided, that chance makes so many).

    ``pairs``: the columns of BY and IDS; ``answers``: cell_id, index, status, start, output_tokens,
    prompt_hash of every request of these cells.
    """
    told, cells = _told(answers)
    once = pairs[[*BY, *IDS]].drop_duplicates()
    # Numbers all the way: there may be millions of answers, and texts are ten times as slow.
    once = once.assign(
        pair=np.arange(len(once)), **{name: cells.get_indexer(pd.Index(once[name])) for name in IDS}
    )
    one, other = (once[["pair", name]].merge(told, left_on=name, right_on="cell") for name in IDS)
    asked = ["pair", "prompt", "turn"]
    both = one[[*asked, "tokens"]].merge(other[[*asked, "tokens"]], on=asked, suffixes=("_b", "_s"))
    both = both.merge(once[["pair", *BY]], on="pair")
    lengths = both.groupby(BY)[["tokens_b", "tokens_s"]]
    least = np.maximum(FEWEST, SHARE * lengths.transform("median")["tokens_b"])
    longest = lengths.transform("max").max(axis=1)
    # Where all answers of an arm are alike long, it was told so: that is no limit they ran into.
    varied = lengths.transform("min")["tokens_s"] < lengths.transform("max")["tokens_s"]
    short = _counted(SHORT, both, both["tokens_b"] < least, both["tokens_s"] < least)
    endless = _counted(
        ENDLESS, both, both["tokens_b"] >= longest, (both["tokens_s"] >= longest) & varied
    )
    return declared("broken by length", pd.concat([short, endless], ignore_index=True))


def _told(answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.Index]:
    """Return the completed answers, each with its prompt and its ``turn`` among those of this prompt, and
    the ids of the cells; cells and prompts are numbers."""
    cell, cells = pd.factorize(answers["cell_id"])
    prompt, prompts = pd.factorize(answers["prompt_hash"])
    rows = pd.DataFrame(
        {
            "cell": cell, "prompt": prompt, "start": answers["start"].to_numpy(),
            "index": answers["index"].to_numpy(), "tokens": answers["output_tokens"].astype(float).to_numpy(),
            "done": (answers["status"] == COMPLETED).to_numpy(np.bool_),
        }
    ).sort_values(["cell", "start", "index"])  # fmt: skip
    place = rows.groupby("cell").cumcount()
    rows["prompt"] = rows["prompt"].where(rows["prompt"] >= 0, len(prompts) + place)
    rows["turn"] = rows.groupby(["cell", "prompt"]).cumcount()
    known = rows["done"] & rows["tokens"].notna()
    return rows.loc[known, ["cell", "prompt", "turn", "tokens"]], pd.Index(cells)


def _counted(kind: str, both: pd.DataFrame, old: pd.Series, new: pd.Series) -> pd.DataFrame:
    rows = both[[*BY, "prompt"]].assign(
        old=old, new=new, more=new.astype(int) - old, tokens=both["tokens_s"].where(new)
    )
    found = rows.groupby(BY).agg(
        share=("new", "mean"), share_baseline=("old", "mean"), tokens=("tokens", "max")
    )
    more = rows[rows["more"] != 0].groupby([*BY, "prompt"])["more"].sum()
    chance = more.groupby(level=BY).agg(lambda one: flip_test(one.to_numpy(np.int64)))
    # Where both break alike, any sum is as large as theirs.
    return found.assign(kind=kind, p=chance.astype(np.float64)).fillna({"p": 1.0}).reset_index()


def flip_test(more: NDArray[np.int64]) -> float:
    """Return the chance that these counts, each with either sign, add up to at least their sum."""
    chances = np.ones(1)
    for size, n in zip(*np.unique(np.abs(more[more != 0]), return_counts=True), strict=True):
        k = np.arange(n + 1)
        sums = np.zeros(2 * size * n + 1)
        sums[:: 2 * size] = np.exp(
            gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) - n * np.log(2)
        )
        chances = np.convolve(chances, sums)
    return min(float(chances[more.sum() + np.abs(more).sum() :].sum()), 1.0)


def by_texts(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return BY, IDS, ``kind``, ``old`` and ``new``: the shares (0-1) of broken answers of the baseline's cell and
    of the arm's. ``pairs``: BY, IDS, metric, baseline, speculative. Where less than half of the baseline's answers
    are JSON, none was asked for."""
    rows = pairs[pairs["metric"].isin(list(TEXTS)) & (pairs["load"] >= 0)].astype(
        dict.fromkeys([*IDS, "metric"], object)
    )
    flaws = rows["metric"] == "repeating_answers"
    old, new = (rows[name].where(flaws, 1 - rows[name]) for name in ("baseline", "speculative"))
    told = rows[[*BY, *IDS]].assign(kind=rows["metric"].map(TEXTS), old=old, new=new)
    asked = flaws | (told.groupby([*BY, "kind"])["old"].transform("mean") <= 1 / 2)
    return declared("texts", told[asked])


def compared_texts(shares: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the same columns as ``compared``, without ``tokens``, of what ``by_texts`` returns. Arms none of
    whose ``answers`` are there have a ``p`` of 1."""
    told, cells = _told(answers)
    counts = told.groupby("cell")["prompt"].nunique()
    prompts = pd.Series(counts.to_numpy(), index=cells[counts.index])
    rows = shares.assign(of_old=shares[IDS[0]].map(prompts), of_new=shares[IDS[1]].map(prompts))
    found = rows.groupby([*BY, "kind"])[["old", "new", "of_old", "of_new"]].mean().fillna(0)
    broken = found.assign(old=found["old"] * found["of_old"], new=found["new"] * found["of_new"])
    p = [_fisher(*row) for row in broken.round().astype(int).itertuples(index=False, name=None)]
    rows = found.assign(share=found["new"], share_baseline=found["old"], p=p).reset_index()
    return declared("broken by text", rows)


def _fisher(old: int, new: int, of_old: int, of_new: int) -> float:
    """Return the chance that the arm has at least ``new`` of all that are broken, were they drawn from both
    alike. ``scipy.stats`` says the same, and takes 0.6 s to import."""
    of = np.array([of_new, of_old, of_new + of_old])
    ours = np.arange(new, min(new + old, of_new) + 1)[:, None]
    of_them = np.hstack([ours, new + old - ours, np.full_like(ours, new + old)])
    ways = gammaln(of + 1) - gammaln(of_them + 1) - gammaln(of - of_them + 1)
    return min(float(np.exp(ways @ [1, 1, -1]).sum()), 1.0)


def settled(p_values: NDArray[np.float64], studies: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which are settled among all that a study (numbered) counts (Holm 1979)."""
    rows = pd.DataFrame({"p": p_values, "study": studies}).sort_values("p", kind="stable")
    of_study = rows.groupby("study")["p"]
    left = of_study.transform("size") - of_study.cumcount()
    held = (rows["p"] <= _WRONG / left).astype(int).groupby(rows["study"]).cummin()
    return np.asarray(held.sort_index(), dtype=np.bool_)
