"""Plants a credential in every text of a sample, and reads again all that Draftboard has written."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

from tests.conftest import RECORDED
from tests.secrets.forms import FORMS, STRUCTURED

REPORTS = Path(__file__).parents[1] / "fixtures" / "reports"
BENCH = Path(__file__).parents[1] / "fixtures" / "vllm-bench"
#: Of a list of requests so many are enough.
_KEPT = 4
#: Texts that a reader goes by: with another one there it is no such file any more, or its kind of
#: load is another.
_STRUCTURE = frozenset(
    {
        "type_", "kind", "type", "guidellm_version", "schema_version", "status", "evidence",
        "request_format", "prefix_cache", "started_at", "ended_at", "spec_method", "report",
        "request_rate", "arguments", "load_profile", "role",
        # Of other load generators: their version, and what their numbers are measured in.
        "version", "units", "unit", "distribution", "duration", "benchmark_phase",
        # By it two arms are found to be a pair.
        "prompt_set_hash",
    }
)  # fmt: skip

ALL = {**{name: make(name) for name, make in FORMS.items()},
       **{f"{{}} {name}": make(f"{{}} {name}") for name, make in STRUCTURED.items()}}  # fmt: skip
TEXTS = [value for value, _ in (ALL[name] for name in FORMS)]
SECRETS = {name: secret for name, (_, secret) in ALL.items()}
_VALUES = [value for value, _ in ALL.values()]
#: What stands somewhere at a turn.
Made = Callable[[int], Any]


def reports() -> list[str]:
    """The names of the recorded GuideLLM reports, one of each generation and more."""
    return sorted(path.name for path in REPORTS.iterdir())


def report(name: str, kept: int = _KEPT) -> dict[str, Any]:
    """A recorded report with so many of the requests of each of its levels."""
    found = report_of(REPORTS / name)
    for benchmark in found["benchmarks"]:
        for status, records in benchmark["requests"].items():
            benchmark["requests"][status] = records and records[:kept]
    return found


def report_of(path: Path) -> dict[str, Any]:
    """A packed report as it is."""
    raw = zstandard.ZstdDecompressor().decompress(path.read_bytes())
    found: dict[str, Any] = json.loads(raw)
    return found


def bench(detailed: bool) -> dict[str, Any]:
    """A recorded result of ``vllm bench serve``."""
    (path, *_) = sorted(BENCH.glob("openai-*.json"))
    found: dict[str, Any] = json.loads(path.read_bytes())
    lists = () if detailed else [key for key, value in found.items() if isinstance(value, list)]
    return {key: value for key, value in found.items() if key not in lists}


def drops() -> list[Path]:
    """Two recorded drops, a baseline and a draft on the same prompts."""
    return [RECORDED / arm / "code" for arm in ("baseline", "draft-model-k3")]


def planted(sample: Any, turn: int) -> Any:
    """The sample with a credential in each of its texts, and beside each of its texts.

    Which one depends on the place and the turn, so that after as many turns as there are forms each
    has stood in each place.
    """
    return planting(sample)(turn)


def planting(sample: Any) -> Made:
    """``planted`` of a sample as a function of the turn; what has no texts is walked only once."""
    return _planting(sample, ("",)) or (lambda _: sample)


def _planting(value: Any, path: tuple[str, ...]) -> Made | None:
    """None where every turn is the same."""
    if isinstance(value, str):
        # LLMPerf writes some numbers as texts, and no other text in their place is read.
        return None if value.isdigit() else _planting_text(value, path)
    if isinstance(value, list):
        *place, name = path
        members = enumerate(value[:50])
        return _changing(value, {n: _planting(one, (*place, f"{n}", name)) for n, one in members})
    if not isinstance(value, dict):
        return None
    if path[-1] == "end_processing_constraints":
        drawn = _drawing(TEXTS, path)
        return lambda turn: {drawn(turn): member for member in value.values()}
    changed = {key: _planting(member, (*path, key)) for key, member in value.items()}
    if any(isinstance(member, str | dict) for member in value.values()) and _is_open(path[-1]):
        changed["planted"] = _drawing(_VALUES, path)
    return _changing(value, changed)


def _changing(value: Any, changed: dict[Any, Made | None]) -> Made | None:
    """A list or an object of which some places are other ones at each turn."""
    places = {place: made for place, made in changed.items() if made is not None}

    def make(turn: int) -> Any:
        found = value.copy()
        for place, made in places.items():
            found[place] = made(turn)
        return found

    return make if places else None


def _planting_text(text: str, path: tuple[str, ...]) -> Made | None:
    if path[-1] == "request_args":
        made = _planting(json.loads(text), path[:-1])
        return made and (lambda turn: json.dumps(made(turn)))
    if path[-1] in _STRUCTURE:
        return None
    drawn = _drawing(TEXTS, path)
    return lambda turn: str(drawn(turn))


def _drawing(forms: list[Any], path: tuple[str, ...]) -> Made:
    """The form whose turn it is at a place."""
    first = zlib.crc32("/".join(path).encode())
    return lambda turn: forms[(first + turn) % len(forms)]


def _is_open(name: str) -> bool:
    """Whether readers let such an object hold what they do not know."""
    return name not in ("record", "timeline", "percentiles", "commands", "metrics", "")


def said_in(folder: Path) -> str:
    """All that stands in the files of a folder and in their names, tables unpacked."""
    parts = []
    for path in sorted(folder.rglob("*")):
        parts.append(str(path.relative_to(folder)))
        if path.suffix == ".parquet":
            for column in pq.read_table(path).to_pydict().values():
                parts += [repr(value) for value in {repr(v): v for v in column}.values()]
        elif path.is_file():
            parts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(parts)


def found_in(text: str) -> list[str]:
    """The names of the credentials that can be read in a text."""
    return [name for name, secret in SECRETS.items() if secret in text]
