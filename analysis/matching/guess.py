"""What a reader's own files are: guessed from their names and from what was read of them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

# --- What the words of a path say of a server: its GPUs, and how they share the work.


_MAKER = r"(?:(?:nvidia|amd|tesla|instinct|geforce|[dh]gx)[-_ ]?)*"
#: Cards by their whole names, the longer ones first: a beginning of one is another card.
_CARD = (
    r"(?:[rg]tx[-_ ]?(?:pro[-_ ]?)?a?\d{4}|a[456]000|[345]0[89]0)"
    r"(?:[-_ ]?(?:ti|super|d|ada|blackwell|laptop|max[-_ ]?q))*|"
    r"gb300|gb200|gb10|gh200|b300|b200|b100|h800|h200|h100|h20[-_ ]?3e|h20|a800|a100|a40|a30|a10g|a10|"
    r"l40s|l40|l20|l4|t4|v100|mi\d{3}(?:x|a)?|gaudi[-_ ]?\d|tpu[-_ ]?v\d[a-z]?|ascend[-_ ]?910[a-d]?"
)
#: How it is built in, and its memory.
_FORM = r"(?:[-_ ]?(?:sxm\d?|pcie\d?|nvl\d*|hbm\de?|\d{2,3}gi?b))*"
#: Words that stand beside a card without a gap: ``h100k3``, ``tp2h100``.
_BESIDE = r"(?:(?:k|spec|mtp|[tdpe]p|cc?|conc|bs|run|r)\d{1,5})*"
#: A card as a whole word, with how many there are: ``8xH200``, ``h100-x8``, ``2x8xh100``.
_GPU = (
    rf"(?<![a-z0-9.]){_BESIDE}{_MAKER}(?P<times>(?:\d{{1,2}}x[-_ ]?)+|\d{{1,2}}(?=[a-z]))?{_MAKER}"
    rf"(?P<card>{_CARD}){_FORM}(?:(?:[-_ ]?x|(?<=mi\d{{3}}x))(?P<of_them>\d{{1,2}})|[-_ ](?P<times_of>\d{{1,2}})x)?"
    rf"(?={_BESIDE}(?![a-z0-9]))"
)
_GPUS = r"(?<![a-z0-9.])(?P<gpus>\d{1,3})[-_ ]?gpus?(?![a-z0-9])|(?<![a-z])n?gpus[-_=]?(?P<n>\d{1,3})(?!\d)"
_PARALLEL = (
    r"(?<![a-z])(?:(?P<short>[tdpe]p|d?cp)|(?P<long>tensor|data|pipeline|expert|context)[-_]parallel)"
    r"(?:[-_]size)?[-_=]?(?P<size>\d{1,3})(?!\d)"
)
#: With it the ranks of data parallelism share the GPUs of the tensor parallel ones.
_SHARED = r"(?<![a-z])dp[-_]?a(?:tt(?:entio)?n)?(?:[-_=]?(?:true|on|1))?(?![a-z0-9])"
_ARGUMENTS = {
    "dp": "data-parallel-size", "pp": "pipeline-parallel-size", "ep": "expert-parallel-size",
    "cp": "context-parallel-size", "dcp": "decode-context-parallel-size",
}  # fmt: skip

#: Patterns of all that is said of a server.
WORDS = (_GPU, _GPUS, _SHARED, _PARALLEL)


def server_of(text: str) -> dict[str, Any]:
    """Return what a path in small letters says of ``gpu``, ``gpu_count``, ``tensor_parallel_size`` and
    ``server_args``; what it does not say is left out.

    The part nearest to the file's name that names a card counts; where it names two, none does.
    """
    # The card and how many of it.
    named = [list(re.finditer(_GPU, part)) for part in text.split("/")]
    nearest = next((cards for cards in reversed(named) if cards), [])
    cards = {_shown(one["card"]) for one in nearest}
    counts = [one["times"] or one["of_them"] or one["times_of"] for one in nearest]
    counts += [one["gpus"] or one["n"] for one in re.finditer(_GPUS, text)]
    count = next((math.prod(map(int, re.findall(r"\d+", one))) for one in counts if one), None)
    sizes = {
        found["short"] or f"{found['long'][0]}p": int(found["size"])
        for found in re.finditer(_PARALLEL, text)
    }
    shared = re.search(_SHARED, text) is not None
    args: dict[str, Any] = {_ARGUMENTS[one]: n for one, n in sizes.items() if n > 1 and one != "tp"}
    if shared:
        args["enable-dp-attention"] = True
    tp = sizes.get("tp")
    if not count and tp and not shared and {"dp", "pp"} & sizes.keys():
        count = tp * sizes.get("dp", 1) * sizes.get("pp", 1)
    gpu = cards.pop() if len(cards) == 1 else None
    facts = {"gpu": gpu, "gpu_count": count, "tensor_parallel_size": tp, "server_args": args}
    return {key: value for key, value in facts.items() if value}


def _shown(card: str) -> str:
    """Return a card's name as its maker writes it: ``RTX 4070 TI``, ``H200``."""
    words = re.findall(r"[rg]tx|pro|a?\d{4}|[a-z]*\d+[a-z]*|[a-z]+", card)
    if re.fullmatch(r"a?\d{4}", words[0]):
        words.insert(0, "rtx")
    return " ".join(words).upper()


# --- What a reader's own files are: guessed from their names and from what was read of them.


#: What a speculative file is taken for whose method nobody names.
SOME_METHOD = "speculative"
BASELINE = "none"
#: What names say, the most telling first -> the method.
_METHODS: tuple[tuple[str, str], ...] = (
    (r"p[-_ ]?eagle", "p-eagle"), (r"eagle[-_ ]?3", "eagle3"), (r"eagle", "eagle"),
    (r"n[-_ ]?gram|prompt[-_ ]?lookup", "ngram"), (r"medusa", "medusa"), (r"mtp", "mtp"),
    (r"suffix", "suffix"), (r"dflash", "dflash"), (r"dspark", "dspark"), (r"pard", "pard"),
    (r"mlp[-_ ]?speculator", "mlp_speculator"), (r"lookahead", "lookahead"), (r"hydra", "hydra"),
    (r"draft(?:[-_ ]?model)?", "draft_model"), (r"spec(?:ulative|ulation)?|sd", SOME_METHOD),
)  # fmt: skip
_ANY_METHOD = "|".join(words for words, _ in _METHODS)
_NOT = r"(no|non|without|wo)[-_ ]?"
_TOKENS = r"(?:spec(?:ulative)?|draft)[-_]?tokens[-_=]?"
#: What says a baseline whatever else is said.
_OFF = rf"{_NOT}spec(ulation|ulative)?|baseline|spec[-_ ]?off"
#: What says one where no method stands beside it or nearer to the file: "without-cudagraph" does not.
_PLAIN = r"vanilla|without(?![-_ ]?[a-z]{2})"
#: What says one where no method stands at all.
_WEAK = r"base|plain|vanilla|without|none|autoregressive|target[-_ ]?only"
_DENIED = (
    rf"{_NOT}({_ANY_METHOD})|({_ANY_METHOD})[-_ ]?(off|false)|((spec|mtp|sd)|{_TOKENS})0(?!\d)"
)
_AFFIRMED = rf"(with|w)[-_ ]?({_ANY_METHOD})|({_ANY_METHOD})[-_ ]?(on|true)"
#: Not the k of a length (1k1k, 8k-1k), of top-k, of k8s or of a model's name.
_K_OF_DRAFTS = (
    r"(?:(?:(?<![a-z\d])(?<!top[-_ ])(?<!kimi[-_ ])|(?<=eagle3)|(?<=eagle[-_ ]3))k[-_=]?"
    r"|(?:(?<=[a-jl-z]\d)|(?<=[a-jl-z]\d\d)|(?<=[a-jl-z]\d\d\d))k)"
    r"(\d{1,2})(?!\d|k(?!\d)|s(?![a-z\d]))"
)
#: What says how many tokens are drafted, the most telling first. "spec-1b" says a model's size, "mtp-2"
#: perhaps the second repeat.
_K = (
    rf"(?<![a-z]){_TOKENS}(\d{{1,2}})(?!\d)",
    _K_OF_DRAFTS,
    rf"(?<![a-z])(?:{_ANY_METHOD})[-_=]?(\d{{1,2}})[-_]?tok(?:en)?s?(?![a-z])",
    r"(?<![a-z])(?:spec[-_=]?|mtp)(\d{1,2})(?!\d|\.\d+[bm]|[a-z]+(?![a-z\d]))",
)
#: The 3 of eagle3 is no number of its own.
_NUMBERED = (
    rf"(?<![a-z])(?>{_OFF}|{_ANY_METHOD}|{_WEAK})[-_=]?(\d{{1,2}}(?:[-_]\d{{1,2}})*)(?![\d.a-z])"
)


@dataclass(frozen=True)
class Guess:
    """What is known of one file; None: nothing says it. ``method``: "none" for a baseline."""

    method: str | None = None
    num_speculative_tokens: int | None = None
    gpu: str | None = None
    dataset: str | None = None
    tensor_parallel_size: int | None = None
    gpu_count: int | None = None
    server_args: dict[str, Any] | None = None


def from_name(name: str, datasets: Sequence[str] = ()) -> Guess:
    """Return what a file's name says. ``datasets``: names that are known."""
    text = name.lower()
    method = _method(text)
    k = None
    if method != BASELINE:
        # The number that the most telling pattern finds, the nearest to the file's name.
        numbers = next(filter(None, (re.findall(pattern, text) for pattern in _K)), None)
        k = int(numbers[-1]) or None if numbers else None
    if k is not None and method is None:
        method = SOME_METHOD
    dataset = next((one for one in datasets if _said(re.escape(one.lower()), text)), None)
    return Guess(method, k, dataset=dataset, **server_of(text))


def unexplained(text: str) -> str:
    """Return the text with a ``/`` in place of every word that says the arm or the server."""
    words = (_OFF, _DENIED, _WEAK, _AFFIRMED, _ANY_METHOD)
    for pattern in (*WORDS, "|".join((*_K, *map(_alone, words)))):
        text = re.sub(pattern, "/", text, flags=re.IGNORECASE)
    return text


def numbers_of_arms(text: str) -> list[str]:
    """Return the numbers that follow a word for an arm and say no draft tokens: the 5 of ``ngram5``,
    ``eagle3_5``, ``base-5``, the 4_2 of ``ngram_4_2``."""
    text = re.sub("|".join(_K), "/", text.lower())
    return [found[-1] for found in re.findall(_NUMBERED, text)]


def _method(text: str) -> str | None:
    """Return the method that a path says, or that it says a baseline; None where it says nothing.

    A method that is denied says no more than a plain word for a baseline.
    """
    if _said(_OFF, text):
        return BASELINE
    text = re.sub(_alone(_DENIED), "vanilla", text)
    method = _said_method(text)
    if method is None:
        return BASELINE if _said(_WEAK, text) else None
    # The part that says an arm, the nearest to the file, may say none.
    for part in reversed(text.split("/")):
        if _said_method(part):
            return method
        if _said(_PLAIN, part):
            return BASELINE
    return method


def _said_method(text: str) -> str | None:
    return next((told for words, told in _METHODS if _said(words, text)), None)


def _said(words: str, text: str) -> re.Match[str] | None:
    return re.search(_alone(words), text)


def _alone(words: str) -> str:
    """Return the pattern of words beside which no letter stands; after a number another word may
    begin that has one too: ``eagle3k5``."""
    return rf"(?<![a-z])({words})(?:(?![a-z])|(?<=\d)(?=[a-z]{{1,4}}[-_=]?\d))"


def together(named: Sequence[Guess], read: Sequence[Guess]) -> tuple[Guess, ...]:
    """Put together what names and contents of files say, each file by itself; a content wins over a
    name, and a file that counts drafts is speculative."""
    guesses = []
    for name, content in zip(named, read, strict=True):
        method = None if content.method == SOME_METHOD else content.method
        drafted = content.num_speculative_tokens or content.method == SOME_METHOD
        if method is None and not (drafted and name.method == BASELINE):
            method = name.method
        both = {f.name: getattr(content, f.name) or getattr(name, f.name) for f in fields(Guess)}
        guesses.append(Guess(**both | {"method": method or (SOME_METHOD if drafted else None)}))
    return tuple(guesses)
