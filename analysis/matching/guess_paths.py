"""What the paths of a folder of results say of their datasets and loads."""

import re
from collections.abc import Sequence
from itertools import takewhile

from analysis.matching.guess import Guess, from_name, unexplained

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
