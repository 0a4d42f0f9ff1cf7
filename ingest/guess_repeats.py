"""Files that ``--guess`` takes for repeats of one run, though their names differ."""

import re
from collections.abc import Sequence
from typing import Any

from analysis.matching.guess_paths import left_words
from ingest.guessing import Guessed
from warehouse.arms import arm_label

#: What tells one file of a writer from the next and says nothing of the run: hashes and times.
_NO_WORD = re.compile(r"[0-9a-f]{6,}|\d+t\d+z?", re.IGNORECASE)


def named_apart(files: Sequence[Guessed]) -> dict[str, tuple[str, ...]]:
    """Return, by arm, the words that tell such names apart: they may say what ran, e.g. the draft."""
    alike: dict[tuple[Any, ...], list[Guessed]] = {}
    for one in files:
        facts = tuple(repr(found.value) for found in one.facts.values())
        alike.setdefault((facts, one.loads), []).append(one)
    found: dict[str, set[str]] = {}
    for repeats in alike.values():
        words = [_words(one) for one in repeats]
        found.setdefault(_arm(repeats[0]), set()).update(
            set().union(*words) - words[0].intersection(*words)
        )
    return {arm: tuple(sorted(words)) for arm, words in found.items() if words}


def _words(one: Guessed) -> set[str]:
    return {word for word in left_words(str(one.path)) if not _NO_WORD.fullmatch(word)}


def _arm(one: Guessed) -> str:
    return arm_label(one.facts["spec_method"].value, one.facts["num_speculative_tokens"].value)
