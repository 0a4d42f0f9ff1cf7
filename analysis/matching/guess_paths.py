"""What the paths of a folder of results say of their datasets and loads, and of drafts that nothing
but the names of files tells apart."""

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from analysis.matching.guess import BASELINE, Guess, from_name, numbers_of_arms, unexplained

#: A number with its place in a path.
Placed = tuple[int, str]
#: Names of datasets in which a ``-`` or a word would be taken for something else.
_DATASET = re.compile(
    r"(?<![a-z0-9])(swe[-_ ]?bench|mt[-_ ]?bench|spec[-_ ]?bench|long[-_ ]?bench|aider[-_ ]?bench|"
    r"live[-_ ]?code[-_ ]?bench|math[-_ ]?500|cnn[-_ ]?dailymail|arena[-_ ]?hard|"
    r"magic[-_ ]?coder|blaz?edit)(?![a-z0-9])",
    re.IGNORECASE,
)
#: Words for requests at once, the most telling first: a batch may be the server's largest one.
_AT_ONCE = (
    r"cc?|conc?|(?:max[-_])?concurrency|concurrent|streams?|users?|clients?",
    r"bs|batch(?:[-_]?size)?",
)
_CONCURRENCY = tuple(
    re.compile(rf"(?<![a-z0-9])(?:{words})[-_=]?(\d{{1,6}})(?![\da-z])", re.IGNORECASE)
    for words in _AT_ONCE
)
#: Requests per second; with its first group a rate of something else.
_RATE = re.compile(
    r"(?<![a-z0-9])((?:accept(?:ance|ed)?|hit|error|failure|success|sampling)[-_ ]?)?"
    r"(?:qps|rps|rate)[-_=]?(\d+(?:\.\d+)?)(?![\da-z])",
    re.IGNORECASE,
)
_REPEAT = re.compile(
    r"(?<![a-z0-9])(?:r|rep|repeat|run|launch|seed|trial|try|iter)[-_=]?(\d+)(?![\da-z])",
    re.IGNORECASE,
)
_REPEAT_DIGITS = 4
#: How long prompts and outputs are.
_LENGTHS = tuple(
    re.compile(rf"(?<![a-z])(?:{words})(\d{{1,7}}k|\d{{2,7}})(?=osl|(?![a-z0-9.]))", re.IGNORECASE)
    for words in (
        r"(?:ctx|isl|context(?:[-_]?len(?:gth)?)?)[-_=]?|in|input|prompt|prefill|(?:seq)?len",
        r"osl[-_=]?|out|output",
    )
)
#: What prompts are called of which nothing but their length is said.
_OF_A_LENGTH = "random"
#: How large a model is; not the 1k of a length.
_SIZE = re.compile(r"(?<![a-z0-9.])\d+(?:\.\d+)?[bm](?![a-z0-9])", re.IGNORECASE)
#: When something ran, in parts, and the port of a server.
_WHEN = re.compile(
    r"(?<!\d)20[0-3]\d([-_.])(?:0\d|1[0-2])\1(?:[0-2]\d|3[01])(?!\d)"
    r"(?:[-_ T/](?:[01]\d|2[0-3])(?:[-_.:][0-5]\d){1,2}(?!\d))?|port[-_=]?\d+",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"(?<![A-Za-z0-9])\d+(?:\.\d+)*(?![A-Za-z0-9])|[A-Za-z0-9]+|/")
#: A longer number is a date or a job.
_NUMBER = re.compile(r"\d{1,5}(?:\.\d{1,5})*")
#: What names the number after it.
_NAMES = re.compile(
    r"(?:num|of|max|in|input|out|output|isl|osl|prefix|prompts?|requests?|len|length|tokens?|"
    r"size|temp|temperature|top|p|k|ratio)",
    re.IGNORECASE,
)
_ENDS = re.compile(r"(\.(json|jsonl|ya?ml|csv|txt|log|out|gz|zst|part))+$", re.IGNORECASE)
#: Words that stand in names of files for what wrote them or for what they are.
_NO_DATASET = frozenset(
    [
        "agg",
        "aiperf",
        "bench",
        "benchmark",
        "benchmarks",
        "completed",
        "data",
        "export",
        "final",
        "genai",
        "gpu",
        "gpus",
        "guidellm",
        "individual",
        "infqps",
        "inference",
        "inferencex",
        "json",
        "latency",
        "level",
        "levels",
        "lifecycle",
        "llmd",
        "llmperf",
        "load",
        "metrics",
        "new",
        "old",
        "openai",
        "out",
        "output",
        "outputs",
        "perf",
        "profile",
        "report",
        "reports",
        "request",
        "requests",
        "responses",
        "result",
        "results",
        "run",
        "runs",
        "serve",
        "server",
        "serving",
        "sglang",
        "stage",
        "stages",
        "summary",
        "sweep",
        "test",
        "tests",
        "throughput",
        "trtllm",
        "vllm",
    ]
)


def named(path: str) -> Guess:
    """Return what a path says of arm, GPU and parallelism."""
    return from_name(_DATASET.sub("/", _ENDS.sub("", path)))


def concurrency(path: str) -> int | None:
    """Return the requests at once that a path says, e.g. ``…-c16.json``; of several the nearest to
    the file's name."""
    found = next(filter(None, (pattern.findall(path) for pattern in _CONCURRENCY)), None)
    return int(found[-1]) or None if found else None


def rate(path: str) -> float | None:
    """Return the requests per second that a path says, e.g. ``qps2.5/…``; of several the nearest to
    the file's name."""
    found = [one[2] for one in _RATE.finditer(_ENDS.sub("", path)) if not one[1]]
    return float(found[-1]) or None if found else None


def repeat(path: str) -> int | None:
    """Return which repeat a path says, ``r2/…``, ``…-run3.json``; of several the nearest to the
    file's name. A longer number is a date or a job."""
    found = [one for one in _REPEAT.findall(_ENDS.sub("", path)) if len(one) <= _REPEAT_DIGITS]
    return int(found[-1]) if found else None


def datasets(paths: Sequence[str], arms: Sequence[str | None]) -> tuple[str | None, ...]:
    """Return the dataset of each path; None where nothing says it.

    It is what is left of a path when all that says something else is taken away, where it tells
    files apart and, with several arms, is there in more than one of them. A length of prompts is
    one by itself, or stands beside it: ``random 1024``, ``chat 1024/128``.
    """
    left = [[w for w in left_words(path) if w.lower() not in _NO_DATASET] for path in paths]
    several = len(set(arms)) > 1
    there: dict[str, set[str | None]] = {}
    for words, arm in zip(left, arms, strict=True):
        for word in words:
            there.setdefault(word, set()).add(arm)
    everywhere = set.intersection(*map(set, left)) if left else set()
    said = {
        word for word, own in there.items()
        if word not in everywhere and (len(own) > 1 or not several)
    }  # fmt: skip
    names = []
    for path, words in zip(paths, left, strict=True):
        name = known_dataset(path) or "-".join(word for word in words if word in said) or None
        prompts, outputs = (lengths.findall(path)[-1:] for lengths in _LENGTHS)
        if prompts or outputs:
            name = f"{name or _OF_A_LENGTH} {'/'.join((prompts or ['?']) + outputs)}"
        names.append(name)
    return tuple(names)


def known_dataset(path: str) -> str | None:
    """Return the benchmark of many words that a path names, e.g. ``mt-bench``."""
    found = _DATASET.search(path)
    return found[1] if found else None


def sizes_in(path: str) -> tuple[str, ...]:
    """Return what a path says of how large models are: ``("70b", "1.5b")``."""
    return tuple(one.lower() for one in _SIZE.findall(path))


def without_sizes(path: str) -> str:
    """Return the path with a ``/`` in place of what says how large a model is."""
    return _SIZE.sub("/", path)


def left_words(path: str) -> list[str]:
    """Return the words of a path, each once, without those about the arm, the load or the repeat."""
    words = (word for word in re.split(r"[^A-Za-z0-9]+", _left(path)) if word)
    return list(dict.fromkeys(word for word in words if not word.isdigit()))


def left_numbers(path: str) -> dict[Placed, str]:
    """Return the numbers that stand alone in a path, with the words that name them, in the order of
    the path: ``{(1, "128"): "input-len-128", (0, "8"): "8"}``.

    Places are counted from the end: what says the arm mostly stands before.
    """
    tokens = _TOKEN.findall(_WHEN.sub("/", _left(path)))
    at = [place for place, token in enumerate(tokens) if _NUMBER.fullmatch(token)]
    numbers = {}
    for number, place in enumerate(at, start=1):
        named = [*takewhile(_NAMES.fullmatch, reversed(tokens[:place]))][::-1]
        numbers[len(at) - number, tokens[place]] = "-".join((*named, tokens[place]))
    return numbers


def _left(path: str) -> str:
    """Return the path with a ``/`` in place of its dataset, load, repeat and arm."""
    text = _ENDS.sub("", path)
    for pattern in (_DATASET, *_CONCURRENCY, _RATE, _REPEAT, *_LENGTHS):
        text = pattern.sub("/", text)
    return unexplained(text)


# --- Drafts of one method that nothing but the names of their files tells apart.


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
