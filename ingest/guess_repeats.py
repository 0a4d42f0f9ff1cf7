"""Files that ``--guess`` would take for one run, though their names differ: drafts, or repeats."""

from collections.abc import Sequence
from typing import Any

from analysis.matching.guess import BASELINE
from analysis.matching.guess_drafts import (
    Named,
    datasets_apart,
    drafts,
    numbers_apart,
    with_words,
    words_apart,
)
from ingest.guessing import OF_THE_SERVER, SEVERAL, SHOWN, Guessed, stated
from warehouse.arms import arm_label


def told_apart(files: Sequence[Guessed]) -> tuple[Guessed, ...]:
    """Return the files, none taken for a repeat of another dataset or arm: datasets that reports
    name alike and drafts get names of their own."""
    by_reports = [one.facts["dataset"].by == "contents" for one in files]
    words = datasets_apart(list(map(_named, files)), by_reports)
    files = list(map(_with_dataset, files, words))
    return tuple(map(_with_draft, files, drafts(list(map(_named, files)))))


def named_apart(files: Sequence[Guessed]) -> dict[str, tuple[str, ...]]:
    """Return, by arm, the words and numbers that tell names of repeats apart: they may say what
    ran."""
    named = list(map(_named, files))
    words, numbers = words_apart(named), numbers_apart(named)
    return {
        arm_label(*arm): (*words.get(arm, ()), *dict.fromkeys(numbers.get(arm, {}).values()))
        for arm in dict.fromkeys((*words, *numbers))
    }


def _named(one: Guessed) -> Named:
    method, k = (_one_value(one, key) for key in ("spec_method", "num_speculative_tokens"))
    known = tuple(repr(one.facts[key].value) for key in (*SHOWN, *OF_THE_SERVER))
    return Named(str(one.path), method, None if method == BASELINE else k, (known, one.loads))


def _one_value(one: Guessed, key: str) -> Any:
    value = one.facts[key].value
    return None if value == SEVERAL else value


def _with_dataset(one: Guessed, words: str | None) -> Guessed:
    """Return the file with the words of its path beside its dataset; what the user says stays, and
    what the results of one file say."""
    said = one.facts["dataset"]
    if words is None or said.by == "you" or said.value == SEVERAL:
        return one
    return stated(one, "dataset", with_words(said.value, words), "name")


def _with_draft(one: Guessed, draft: str | None) -> Guessed:
    """Return the file with a draft that its path says, where neither contents nor user say one."""
    known = one.facts["draft_model"].value is not None or _one_value(one, "spec_method") is None
    return one if known or draft is None else stated(one, "draft_model", draft, "name")
