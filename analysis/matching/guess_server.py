"""What the words of a path say of a server: its GPUs, and how they share the work."""

import math
import re
from typing import Any

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
    gpu, count = _gpu(text)
    sizes = {
        found["short"] or f"{found['long'][0]}p": int(found["size"])
        for found in re.finditer(_PARALLEL, text)
    }
    shared = re.search(_SHARED, text) is not None
    args: dict[str, Any] = {_ARGUMENTS[one]: n for one, n in sizes.items() if n > 1 and one != "tp"}
    if shared:
        args["enable-dp-attention"] = True
    tp = sizes.get("tp")
    if count is None and tp and not shared and {"dp", "pp"} & sizes.keys():
        count = tp * sizes.get("dp", 1) * sizes.get("pp", 1)
    said = {"gpu": gpu, "gpu_count": count, "tensor_parallel_size": tp, "server_args": args}
    return {key: value for key, value in said.items() if value}


def _gpu(text: str) -> tuple[str | None, int | None]:
    """Return the card that a path names and how many of it."""
    named = [list(re.finditer(_GPU, part)) for part in text.split("/")]
    nearest = next((found for found in reversed(named) if found), [])
    cards = {_shown(found["card"]) for found in nearest}
    counts = [found["times"] or found["of_them"] or found["times_of"] for found in nearest]
    counts += [found["gpus"] or found["n"] for found in re.finditer(_GPUS, text)]
    count = next((math.prod(map(int, re.findall(r"\d+", one))) for one in counts if one), None)
    return (cards.pop() if len(cards) == 1 else None), count or None


def _shown(card: str) -> str:
    """Return a card's name as its maker writes it: ``RTX 4070 TI``, ``H200``."""
    words = re.findall(r"[rg]tx|pro|a?\d{4}|[a-z]*\d+[a-z]*|[a-z]+", card)
    if re.fullmatch(r"a?\d{4}", words[0]):
        words.insert(0, "rtx")
    return " ".join(words).upper()
