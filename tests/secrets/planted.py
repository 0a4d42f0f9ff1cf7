"""Plants a credential in every text of a sample, and reads again all that Draftboard has written."""

import json
import zlib
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


def reports() -> list[str]:
    """The names of the recorded GuideLLM reports, one of each generation and more."""
    return sorted(path.name for path in REPORTS.iterdir())


def report(name: str, kept: int = _KEPT) -> dict[str, Any]:
    """A recorded report with so many of the requests of each of its levels."""
    raw = zstandard.ZstdDecompressor().decompress((REPORTS / name).read_bytes())
    found: dict[str, Any] = json.loads(raw)
    for benchmark in found["benchmarks"]:
        for status, records in benchmark["requests"].items():
            benchmark["requests"][status] = records and records[:kept]
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
    return _planted(sample, ("",), turn)


def _planted(value: Any, path: tuple[str, ...], turn: int) -> Any:
    name = path[-1]
    if isinstance(value, str):
        return _planted_text(value, path, turn)
    if isinstance(value, list):
        return [_planted(member, (*path[:-1], f"{number}", name), turn) if number < 50 else member
                for number, member in enumerate(value)]  # fmt: skip
    if not isinstance(value, dict):
        return value
    if name == "end_processing_constraints":
        return {_drawn(TEXTS, path, turn): member for member in value.values()}
    found = {key: _planted(member, (*path, key), turn) for key, member in value.items()}
    if any(isinstance(member, str | dict) for member in value.values()) and _is_open(name):
        found["planted"] = _drawn(_VALUES, path, turn)
    return found


def _planted_text(text: str, path: tuple[str, ...], turn: int) -> str:
    if path[-1] == "request_args":
        return json.dumps(_planted(json.loads(text), path[:-1], turn))
    return text if path[-1] in _STRUCTURE else str(_drawn(TEXTS, path, turn))


def _drawn(forms: list[Any], path: tuple[str, ...], turn: int) -> Any:
    return forms[(zlib.crc32("/".join(path).encode()) + turn) % len(forms)]


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
