"""What a reader's own files are: guessed from their names and from what was read of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

#: What a speculative file is taken for whose method nobody names.
SOME_METHOD = "speculative"
BASELINE = "none"
#: What names say, the most telling first -> the method.
_METHODS: tuple[tuple[str, str], ...] = (
    (r"no[-_ ]?spec(ulation|ulative)?|baseline|vanilla|without|spec[-_ ]?off", BASELINE),
    (r"eagle[-_ ]?3", "eagle3"), (r"eagle", "eagle"), (r"n[-_ ]?gram|prompt[-_ ]?lookup", "ngram"),
    (r"medusa", "medusa"), (r"mtp", "mtp"), (r"suffix", "suffix"),
    (r"draft([-_ ]?model)?", "draft_model"), (r"spec(ulative|ulation)?(?=\d*)", SOME_METHOD),
    (r"base", BASELINE),
)  # fmt: skip
_K = r"(?:k|spec(?:ulative)?[-_]?tokens|draft[-_]?tokens|spec)[-_=]?(\d{1,2})"
_TP = r"tp[-_=]?(\d{1,2})"
_GPU = r"gb300|gb200|b300|b200|h200|h100|h20|a100|l40s|l40|l4|a10g|a10|t4|mi\d{3}x"


@dataclass(frozen=True)
class Guess:
    """What is known of one file; None: nothing says it. ``method``: "none" for a baseline."""

    method: str | None = None
    num_speculative_tokens: int | None = None
    gpu: str | None = None
    dataset: str | None = None
    tensor_parallel_size: int | None = None


def from_name(name: str, datasets: Sequence[str] = ()) -> Guess:
    """Return what a file's name says. ``datasets``: names that are known."""
    text = name.lower()
    method = next((told for words, told in _METHODS if _said(words, text)), None)
    k = None if method == BASELINE else _number(_K, text)
    if k is not None and method is None:
        method = SOME_METHOD
    gpu = _said(_GPU, text)
    dataset = next((one for one in datasets if _said(re.escape(one.lower()), text)), None)
    return Guess(method, k, gpu.group(1).upper() if gpu else None, dataset, _number(_TP, text))


def unexplained(text: str) -> str:
    """Return the text with a ``/`` in place of every word that says the arm, the GPU or the
    parallelism."""
    known = "|".join((_K, _TP, _GPU, *(words for words, _ in _METHODS)))
    return re.sub(rf"(?<![a-z])({known})(?![a-z])", "/", text, flags=re.IGNORECASE)


def _said(words: str, text: str) -> re.Match[str] | None:
    """Find the words in a text, where no letter stands beside them."""
    return re.search(rf"(?<![a-z])({words})(?![a-z])", text)


def _number(words: str, text: str) -> int | None:
    found = re.search(rf"(?<![a-z]){words}(?!\d)", text)
    return int(found.group(1)) if found and int(found.group(1)) else None


def together(named: Sequence[Guess], read: Sequence[Guess]) -> tuple[Guess, ...]:
    """Put together what names and contents of files say; a content wins over a name.

    A file that counts drafts is speculative. Where one file's arm is known to be speculative and
    every other's is not known, these are baselines; beside a known baseline they are speculative.
    """
    both = tuple(_over(one, other) for one, other in zip(named, read, strict=True))
    return resolved(both)


def resolved(files: Sequence[Guess]) -> tuple[Guess, ...]:
    """Fill in the unknown arms that follow from the known ones."""
    methods = {one.method for one in files} - {None}
    if not methods:
        return tuple(files)
    rest = SOME_METHOD if BASELINE in methods else BASELINE
    return tuple(one if one.method else replace(one, method=rest) for one in files)


def _over(name: Guess, content: Guess) -> Guess:
    drafted = content.num_speculative_tokens
    method = content.method or (None if drafted and name.method == BASELINE else name.method)
    return Guess(
        method or (SOME_METHOD if drafted else None),
        drafted or name.num_speculative_tokens,
        content.gpu or name.gpu,
        content.dataset or name.dataset,
        content.tensor_parallel_size or name.tensor_parallel_size,
    )
