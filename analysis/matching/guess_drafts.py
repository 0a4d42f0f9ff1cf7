"""Drafts of one method that nothing but the names of their files tells apart."""

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from analysis.matching.guess import BASELINE, numbers_of_arms
from analysis.matching.guess_paths import Placed, known_dataset, left_numbers, left_words, sizes_in

Arm = tuple[str | None, int | None]
#: What tells one file of a writer from the next and says nothing of the run: hashes and times.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NO_WORD = re.compile(r"[0-9a-f]{6,}|\d+t\d+z?", re.IGNORECASE)

#: What reports state as a dataset where the prompts were somebody's own: a kind, or a file.
_SAYS_NOTHING = re.compile(
    r"custom|openai|hf|file|data|dataset|prompts|.*\.(jsonl?|csv|txt|parquet)"
)


@dataclass(frozen=True)
class Named:
    """One file: its path, its arm, and in ``known`` all else that is known of it, which repeats of
    one run share."""

    path: str
    method: str | None
    k: int | None
    known: Hashable

    @property
    def arm(self) -> Arm:
        """Its method and draft tokens."""
        return self.method, self.k

    @cached_property
    def words(self) -> list[str]:
        """What its path says beside arm, load and repeat."""
        words = left_words(_UUID.sub("/", self.path))
        known = known_dataset(self.path)
        return [*([known] if known else []), *(w for w in words if not _NO_WORD.fullmatch(w))]

    @cached_property
    def settings(self) -> dict[Placed, str]:
        """The numbers that stand alone in its path, and how they are shown."""
        return left_numbers(_UUID.sub("/", self.path))

    @cached_property
    def numbers(self) -> list[str]:
        """The numbers beside the words for arms, where nobody says the draft tokens."""
        return numbers_of_arms(self.path) if self.k is None else []


def drafts(files: Sequence[Named]) -> tuple[str | None, ...]:
    """Return what the path of each file says of its draft; None where it tells nothing apart.

    An average over two drafts decides wrongly. So drafts of one method are told apart by their sizes,
    ``eagle3-1b/`` and ``eagle3-8b/``, and files that would be repeats by the words and numbers that
    differ: ``eagle3-fp8/`` and ``eagle3-bf16/``, ``ngram2/`` and ``ngram5/``. What the path of a
    baseline has too says nothing of a draft; without a baseline nothing is told apart.
    """
    baselines = [one for one in files if one.method == BASELINE]
    if not baselines:
        return (None,) * len(files)
    sizes = _sizes(files, baselines)
    sized = [replace(one, known=(one.known, size)) for one, size in zip(files, sizes, strict=True)]
    # Where baselines are numbered too, numbers are those of repeats.
    telling = words_apart(sized, numbered=not any(one.numbers for one in baselines))
    of_baselines = {word for one in baselines for word in one.words}
    labels = []
    for one, size in zip(sized, sizes, strict=True):
        apart = set(telling.get(one.arm, ())) - of_baselines
        words = [word for word in (*one.words, *one.numbers) if word in apart]
        label = "-".join([size, *words] if size else words) or None
        labels.append(None if one.method == BASELINE else label)
    return tuple(labels)


def datasets_apart(files: Sequence[Named], by_reports: Sequence[bool]) -> tuple[str | None, ...]:
    """Return what the path of each file adds to a dataset that is one for all; None: nothing.

    Reports often say no more than "custom" or the name of a file with prompts. Words that tell the
    repeats of a baseline apart, and those of another arm as well, say which prompts or settings
    both had: ``gsm8k/`` and ``humaneval/`` are never pairs, nor are their averages. So do numbers,
    ``128-256/`` and ``1024-1024/``. ``by_reports``: whose dataset is no word of its path already.
    """
    telling = {arm: set(words) for arm, words in words_apart(files).items()}
    of_baselines = telling.get((BASELINE, None), set())
    others = set().union(*(words for arm, words in telling.items() if arm[0] != BASELINE))
    shared = of_baselines & others
    # Of the numbers those at places where they tell repeats of one arm apart that baselines and
    # other arms share.
    there: dict[bool, set[Placed]] = {True: set(), False: set()}
    for one in files:
        there[one.method == BASELINE].update(one.settings)
    different = set().union(*numbers_apart(files).values())
    both = different & there[True] & there[False]
    places = {place for place, _ in both}
    numbers = both | {placed for placed in different if placed[0] in places}
    names = []
    for one, by_report in zip(files, by_reports, strict=True):
        words = [word for word in one.words if by_report and word in shared]
        settings = [shown for placed, shown in one.settings.items() if placed in numbers]
        names.append("-".join([*words, *settings]) or None)
    return tuple(names)


def numbers_apart(files: Sequence[Named]) -> dict[Arm, dict[Placed, str]]:
    """Return, by arm, the numbers that tell names of repeats apart and do not count them."""
    found: dict[Arm, dict[Placed, str]] = {}
    for repeats in _alike(files):
        different = set().union(*(one.settings for one in repeats))
        different -= set(repeats[0].settings).intersection(*(one.settings for one in repeats))
        # Numbers of repeats count from 0 or 1 at their place.
        counts = set()
        for place in {place for place, _ in different}:
            there = {number for at, number in different if at == place}
            counted = sorted({int(number) for number in there if number.isdigit()})
            if counted in (list(range(len(there))), list(range(1, len(there) + 1))):
                counts.add(place)
        found.setdefault(repeats[0].arm, {}).update(
            (placed, shown) for one in repeats for placed, shown in one.settings.items()
            if placed in different and (placed[0] not in counts or shown != placed[1])
        )  # fmt: skip
    return {arm: numbers for arm, numbers in found.items() if numbers}


def _alike(files: Sequence[Named]) -> Iterable[list[Named]]:
    alike: dict[Hashable, list[Named]] = {}
    for one in files:
        alike.setdefault((one.arm, one.known), []).append(one)
    return alike.values()


def with_words(dataset: str | None, words: str) -> str:
    """Return a dataset with words that tell it from another of its name; the words alone where it
    says nothing, as "custom" or the name of a file."""
    return words if dataset is None or _SAYS_NOTHING.fullmatch(dataset) else f"{dataset} {words}"


def words_apart(files: Sequence[Named], *, numbered: bool = False) -> dict[Arm, tuple[str, ...]]:
    """Return, by arm, the words that tell names of repeats apart: they may say what ran. ``numbered``:
    also the numbers beside the words for arms."""
    found: dict[Arm, set[str]] = {}
    for repeats in _alike(files):
        words = [{*one.words, *(one.numbers if numbered else ())} for one in repeats]
        different = set().union(*words) - words[0].intersection(*words)
        found.setdefault(repeats[0].arm, set()).update(different)
    return {arm: tuple(sorted(words)) for arm, words in found.items() if words}


def _sizes(files: Sequence[Named], baselines: Sequence[Named]) -> list[str | None]:
    """Return the size of each draft whose method has several; a size that the path of a baseline has
    too is the model's."""
    of_models = {size for one in baselines for size in sizes_in(one.path)}
    said = ["-".join(s for s in sizes_in(one.path) if s not in of_models) or None for one in files]
    by_method: dict[str | None, set[str | None]] = {}
    for one, size in zip(files, said, strict=True):
        by_method.setdefault(one.method, set()).add(size)
    return [
        size if one.method is not None and len(by_method[one.method]) > 1 else None
        for one, size in zip(files, said, strict=True)
    ]
