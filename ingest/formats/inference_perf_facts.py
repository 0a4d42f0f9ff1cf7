"""What the settings of an inference-perf run and the load of a stage say of a cell."""

from typing import Any

from ingest.stated import number, positive

_FORMATS = {"completion": "text_completions", "chat": "chat_completions"}
_SERVERS = ("vllm", "sglang", "tgi")


def facts_of(settings: dict[str, Any], told: dict[str, Any], stage: int | None) -> dict[str, Any]:
    """Return the facts; ``told`` is the report's own load. None for what neither says."""
    server, data = _object(settings.get("server")), _object(settings.get("data"))
    kind = server.get("type")
    ignore = server.get("ignore_eos")
    return {
        "model": server.get("model_name") or None,
        "engine": kind if kind in _SERVERS else None,
        "evidence": "mock" if kind == "mock" else None,
        "request_format": _FORMATS.get(str(_object(settings.get("api")).get("type"))),
        "dataset": _dataset(data),
        "ignore_eos": ignore if isinstance(ignore, bool) else None,
        **_load(_object(settings.get("load")), told, stage),
    }


def _dataset(data: dict[str, Any]) -> str | None:
    """Name the dataset by the kind of data: a file by its name, random texts by the lengths asked
    for."""
    kind, path = data.get("type"), data.get("path")
    if isinstance(path, str) and path:
        return path.rstrip("/").rpartition("/")[2]
    if not isinstance(kind, str):
        return None
    lengths = [
        number(_object(data.get(f"{side}_distribution")), "mean") for side in ("input", "output")
    ]
    return kind if None in lengths else f"{kind} {lengths[0]:g}/{lengths[1]:g}"


def _load(load: dict[str, Any], told: dict[str, Any], stage: int | None) -> dict[str, Any]:
    """Return the load of a stage; a summary of several stages has none."""
    stages = load.get("stages")
    listed = [one for one in stages if isinstance(one, dict)] if isinstance(stages, list) else []
    place = 0 if stage is None and len(listed) == 1 else stage
    own = listed[place] if place is not None and place < len(listed) else {}
    at_once = positive(told, "concurrency") or positive(own, "concurrency_level")
    if at_once is not None:
        return {"load_profile": "concurrent", "concurrency": int(at_once)}
    rate = positive(own, "rate") or positive(told, "requested_rate")
    kind = load.get("type")
    arrivals = kind if kind in ("constant", "poisson") else None
    return {"load_profile": arrivals, "rate": rate} if rate is not None else {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
