"""What an AIPerf report says of its cell: model, endpoint, dataset, load.

The settings changed their shape between releases; what the command line said stands in some too.
"""

from typing import Any

from ingest.level import is_number
from ingest.stated import number, positive

_RATES = {"constant": "constant", "poisson": "poisson", "gamma": "gamma"}


def facts_of(said: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that a report states, in the contract's words; None for what it does not."""
    config = _object(said.get("input_config"))
    endpoint = _object(config.get("endpoint"))
    return {
        "model": _model(config, endpoint),
        "request_format": _format(endpoint.get("type")),
        "dataset": _dataset(config),
        "seed": _seed(said),
        **_extra(endpoint),
        **_load(config),
    }


def _model(config: dict[str, Any], endpoint: dict[str, Any]) -> str | None:
    models = config.get("models") or config.get("model") or endpoint.get("model_names")
    if isinstance(models, dict):
        models = models.get("items")
    first = models[0] if isinstance(models, list) and models else models
    name = first.get("name") if isinstance(first, dict) else first
    return name if isinstance(name, str) and name else None


def _format(kind: Any) -> str | None:
    return {"chat": "chat_completions", "completions": "text_completions"}.get(str(kind))


def _dataset(config: dict[str, Any]) -> str | None:
    """Name the dataset: a file by its name, synthetic prompts by the lengths asked for."""
    first = _first(config.get("datasets")) or _object(config.get("input"))
    for key in ("path", "file"):
        if isinstance(first.get(key), str) and first[key]:
            return str(first[key]).rstrip("/").rpartition("/")[2]
    for key in ("dataset", "public_dataset"):
        if isinstance(first.get(key), str) and first[key]:
            return str(first[key])
    prompts = _object(first.get("prompts") or first.get("prompt"))
    lengths = (
        _mean(prompts.get("isl") or prompts.get("input_tokens")),
        _mean(prompts.get("osl") or prompts.get("output_tokens")),
    )
    return f"synthetic {lengths[0]:g}/{lengths[1]:g}" if lengths[0] and lengths[1] else None


def _mean(told: Any) -> float | None:
    said = told if isinstance(told, dict) else {"mean": told}
    return number(said, "mean" if "mean" in said else "value", "the length of prompts or outputs")


def _seed(said: dict[str, Any]) -> int | None:
    seed = _object(said.get("run_info")).get("random_seed")
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else None


def _extra(endpoint: dict[str, Any]) -> dict[str, Any]:
    """Return the sampling settings that were sent with every request: an object, or pairs of name
    and value."""
    told = endpoint.get("extra")
    if isinstance(told, list):
        told = {pair[0]: pair[1] for pair in told if isinstance(pair, list) and len(pair) == 2}
    extra = _object(told)
    return {
        "temperature": number(extra, "temperature"),
        "top_p": positive(extra, "top_p"),
        "ignore_eos": extra.get("ignore_eos")
        if isinstance(extra.get("ignore_eos"), bool)
        else None,
    }


def _load(config: dict[str, Any]) -> dict[str, Any]:
    """Return the load of the measured phase; before 0.13 one block of settings for the whole
    run."""
    phase = _measured(config.get("phases")) or _object(config.get("loadgen"))
    limit = positive(phase, "concurrency")
    rate = positive(phase, "rate") or positive(phase, "request_rate")
    kind = str(phase.get("type") or phase.get("request_rate_mode") or "")
    if kind == "fixed_schedule":
        return {"load_profile": "trace", "trace": _dataset(config), "concurrency": limit}
    if rate is None:
        return {"load_profile": "concurrent" if limit else None, "concurrency": limit}
    smooth = phase.get("smoothness")
    arrivals = f"gamma (burstiness {smooth:g})" if kind == "gamma" and is_number(smooth) else None
    return {"load_profile": arrivals or _RATES.get(kind), "rate": rate, "concurrency": limit}


def _measured(phases: Any) -> dict[str, Any]:
    """Return the phase whose results count."""
    listed = list(phases.values()) if isinstance(phases, dict) else phases
    found = [one for one in listed or [] if isinstance(one, dict)]
    counted = [
        one
        for one in found
        if not one.get("exclude_from_results") and one.get("kind", one.get("name")) != "warmup"
    ]
    return counted[0] if counted else {}


def _first(listed: Any) -> dict[str, Any]:
    if isinstance(listed, dict):
        listed = list(listed.values())
    return _object(listed[0]) if isinstance(listed, list) and listed else {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
