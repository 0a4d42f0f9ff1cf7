"""Whether the arms answered the same: lengths of the outputs and, where kept, their texts.

Speculation with an exact acceptance rule changes no distribution, and at temperature 0 no token, but
for numerics: another batch size adds in another order, and a near tie between two tokens falls the
other way. So texts that differ prove nothing by themselves, and lengths that differ a lot do.
"""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import gammainccinv, gammaincinv

from analysis.flags.lints_across import lengths_differ
from analysis.percentiles import nearest_rank
from warehouse.rows import COMPLETED

#: What is read of a request.
COLUMNS: tuple[str, ...] = ("index", "status", "output_tokens", "prompt_hash", "output")
NUMERICS = (
    "Batching alone changes numerics: two runs of the same arm differ in some texts too, so compare "
    "this share with that of two baseline repeats before blaming speculation."
)
_WORDS = re.compile(r"\w+|[^\w\s]|\s+")


@dataclass(frozen=True)
class OutputCheck:
    """How the outputs of two arms compare. ``median_tokens``: baseline, speculative, over ``prompts`` that
    both arms completed. ``identical``: share (0-1) of those with the same text; None where texts were not kept
    or the temperature is not 0 in both arms. ``sentences``: for a person."""

    prompts: int
    median_tokens: tuple[float, float] | None
    identical: float | None
    sentences: tuple[str, ...]


def check_outputs(
    baseline: pd.DataFrame, speculative: pd.DataFrame, greedy: bool | None
) -> OutputCheck:
    """Compare the outputs of two cells, given their requests (COLUMNS), or of several pairs of cells,
    whose requests share a number in the column ``pair``.

    ``greedy``: whether both arms ran at temperature 0; None for unknown.
    """
    both = completed_by_both(baseline, speculative)
    lengths = both[["output_tokens_b", "output_tokens_s"]].dropna()
    medians = _medians(lengths)
    texts = both[["output_b", "output_s"]].dropna() if greedy else both.iloc[:0]
    identical, place = _texts(texts)
    sentences = (
        *_length_sentences(len(lengths), medians),
        *_text_sentences(greedy, len(texts), identical, place),
    )
    return OutputCheck(len(both), medians, identical, sentences)


def completed_by_both(baseline: pd.DataFrame, speculative: pd.DataFrame) -> pd.DataFrame:
    """Return a row per prompt that both arms completed: ``output`` and ``output_tokens``, the baseline's
    with ``_b`` behind and the other's with ``_s``."""
    one, other = (_keyed(rows) for rows in (baseline, speculative))
    return one.add_suffix("_b").join(other.add_suffix("_s"), how="inner")


def _keyed(rows: pd.DataFrame) -> pd.DataFrame:
    """Index completed requests by their prompt; a prompt sent twice is told apart by its turn."""
    known = rows[rows["status"] == COMPLETED].dropna(subset=["prompt_hash"]).sort_values("index")
    pair = known["pair"] if "pair" in known else pd.Series(0, index=known.index)
    turn = known.groupby([pair, "prompt_hash"], observed=True).cumcount()
    keyed = known.set_index(pd.MultiIndex.from_arrays([pair, known["prompt_hash"], turn]))
    return keyed[["output_tokens", "output"]]


def _medians(lengths: pd.DataFrame) -> tuple[float, float] | None:
    if lengths.empty:
        return None
    one, other = (
        float(nearest_rank(lengths[name].to_numpy(dtype=np.float64), [0.5])[0]) for name in lengths
    )
    return one, other


def _texts(texts: pd.DataFrame) -> tuple[float | None, float | None]:
    if texts.empty:
        return None, None
    places = [first_difference(*pair) for pair in texts.itertuples(index=False, name=None)]
    differing = [place for place in places if place is not None]
    identical = 1 - len(differing) / len(places)
    return identical, float(np.median(differing)) if differing else None


def first_difference(one: str, other: str) -> int | None:
    """Return the place of the first word (from 1; punctuation counts) in which two texts differ;
    None for none."""
    if one == other:
        return None
    here, there = (_WORDS.findall(text) for text in (one, other))
    same = next(
        (at for at, (a, b) in enumerate(zip(here, there, strict=False)) if a != b),
        min(len(here), len(there)),
    )
    return 1 + sum(not word.isspace() for word in here[:same])


def _length_sentences(prompts: int, medians: tuple[float, float] | None) -> tuple[str, ...]:
    if medians is None:
        return ("Output lengths cannot be compared: no prompt was completed by both arms.",)
    flag = lengths_differ(*medians)
    told = (
        f"Median output over {prompts} prompts that both arms completed: {medians[0]:.0f} tokens "
        f"in the baseline, {medians[1]:.0f} in the speculative arm."
    )
    return (told,) if flag is None else (told, flag.sentence)


def _text_sentences(
    greedy: bool | None, prompts: int, identical: float | None, place: float | None
) -> tuple[str, ...]:
    if not greedy:
        why = "is unknown" if greedy is None else "is not 0 in both arms"
        return (f"Texts are not compared: the temperature {why}.",)
    if identical is None:
        return ("Texts are not compared: none were kept (ingest with --keep-text).",)
    told = f"{identical:.1%} of {prompts} texts are identical at temperature 0."
    if place is not None:
        told += f" Where they differ, they first do at word {place:.0f} (median)."
    return (told, NUMERICS)


# --- Whether an arm answers as its baseline does at temperature 0, but for rounding.
#
# Speculation that verifies exactly changes no token but at a near tie, which rounding decides: another batch
# size, or several tokens in one step, add in another order. After such a tie a text goes on otherwise, so
# of long texts many differ, and how many says little. What tells is how soon they part: rounding parts them
# once in some hundred tokens, a draft whose tokens are taken unchecked within the first few.


#: Answers that part more often than once in so many tokens do so by more than rounding, …
TOKENS = 50
#: … and it has to be so sure that they do (one-sided).
_CHANCE = 0.001


@dataclass(frozen=True)
class Parting:
    """How soon the answers of two arms part. ``texts``: prompts that both answered; ``parted``: so many
    answers differ; ``tokens``: so many came before they did, and of the others altogether."""

    texts: int = 0
    parted: int = 0
    tokens: float = 0.0

    def __add__(self, other: "Parting") -> "Parting":
        return Parting(
            self.texts + other.texts, self.parted + other.parted, self.tokens + other.tokens
        )

    @property
    def least(self) -> float:
        """How often answers part for each token, at least (Poisson, exact)."""
        return float(gammaincinv(self.parted, _CHANCE)) / self.tokens if self.parted else 0.0

    @property
    def most(self) -> float:
        """How often answers part for each token, at most; without end where none were read."""
        if not self.tokens:
            return float("inf")
        return float(gammainccinv(self.parted + 1, _CHANCE)) / self.tokens

    def is_other(self, own: "Parting") -> bool:
        """Return whether they part more often than rounding parts them. ``own``: the same of two
        launches of the baseline, which may part by itself; nothing where it was launched once."""
        allowed = 1 / TOKENS
        if own.parted:
            allowed = max(allowed, own.most)
        return self.least > allowed


def parting(baseline: pd.DataFrame, other: pd.DataFrame) -> Parting:
    """Read the answers of two cells that ran at temperature 0, given their requests
    (``output_check.COLUMNS``)."""
    both = completed_by_both(baseline, other)[["output_b", "output_s", "output_tokens_b"]].dropna()
    return sum((_of(*row) for row in both.itertuples(index=False, name=None)), Parting())


def _of(one: str, other: str, tokens: float) -> Parting:
    """Read one answer. Where its tokens lie is not kept: each is taken for equally long."""
    if one == other:
        return Parting(1, 0, tokens)
    same = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    return Parting(1, 1, 1 + tokens * same / max(len(one), 1))
