"""Files that ``--guess`` takes for one run, though their names differ: drafts of their own, or repeats."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from analysis.matching.guess import BASELINE, numbers_of_arms
from analysis.matching.guess_paths import left_words
from ingest.guessing import Guessed, reguessed
from warehouse.arms import arm_label

#: What tells one file of a writer from the next and says nothing of the run: hashes and times.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NO_WORD = re.compile(r"[0-9a-f]{6,}|\d+t\d+z?", re.IGNORECASE)


def told_apart(files: Sequence[Guessed]) -> tuple[Guessed, ...]:
    """Return the files, none taken for a repeat of another arm.

    Two drafts that are averaged decide wrongly, so words that only files of one speculative arm have
    tell its drafts apart: ``eagle3-fp8/`` and ``eagle3-bf16/``, ``ngram2/`` and ``ngram5/`` beside
    ``base/``. Files that are baselines only since the others are not are so if they are one arm.
    """
    baselines = [one for one in files if _method(one) == BASELINE]
    if not baselines:
        return tuple(files)
    words = named_apart(files)
    if _is_of_others(baselines[0]) and _arm(baselines[0]) in words:
        return tuple(map(_without_guess_by_others, files))
    # Where baselines are numbered too, numbers are those of repeats.
    if not any(map(_numbers, baselines)):
        words = _apart(files, lambda one: _words(one) | _numbers(one))
    of_baselines = set().union(*map(_words, baselines))
    return tuple(_with_draft(one, set(words.get(_arm(one), ())) - of_baselines) for one in files)


def named_apart(files: Sequence[Guessed]) -> dict[str, tuple[str, ...]]:
    """Return, by arm, the words that tell such names apart: they may say what ran, e.g. the draft."""
    return _apart(files, _words)


def _apart(
    files: Sequence[Guessed], words_of: Callable[[Guessed], set[str]]
) -> dict[str, tuple[str, ...]]:
    alike: dict[tuple[Any, ...], list[Guessed]] = {}
    for one in files:
        facts = tuple(repr(found.value) for found in one.facts.values())
        alike.setdefault((facts, one.loads), []).append(one)
    found: dict[str, set[str]] = {}
    for repeats in alike.values():
        words = [words_of(one) for one in repeats]
        found.setdefault(_arm(repeats[0]), set()).update(
            set().union(*words) - words[0].intersection(*words)
        )
    return {arm: tuple(sorted(words)) for arm, words in found.items() if words}


def _is_of_others(one: Guessed) -> bool:
    return one.facts["spec_method"].by == "others"


def _without_guess_by_others(one: Guessed) -> Guessed:
    return reguessed(one, "spec_method", None) if _is_of_others(one) else one


def _with_draft(one: Guessed, telling: set[str]) -> Guessed:
    """Return the file with a draft named after those of the words that it has."""
    own = [word for word in _in_order(one) if word in telling]
    draft = one.facts["draft_model"]
    if _method(one) == BASELINE or not own or draft.by in ("contents", "you"):
        return one
    size = [draft.value] if draft.value is not None else []
    return reguessed(one, "draft_model", "-".join([*size, *own]))


def _in_order(one: Guessed) -> list[str]:
    return [*left_words(str(one.path)), *sorted(_numbers(one))]


def _words(one: Guessed) -> set[str]:
    return {
        word for word in left_words(_UUID.sub("/", str(one.path))) if not _NO_WORD.fullmatch(word)
    }


def _numbers(one: Guessed) -> set[str]:
    """Return the numbers of the words for arms, where nobody says the draft tokens."""
    known = one.facts["num_speculative_tokens"].value is not None
    return set() if known else set(numbers_of_arms(str(one.path)))


def _method(one: Guessed) -> Any:
    return one.facts["spec_method"].value


def _arm(one: Guessed) -> str:
    return arm_label(_method(one), one.facts["num_speculative_tokens"].value)
