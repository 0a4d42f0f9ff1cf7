"""What an llm-d benchmark report says of the servers and the load: its scenario."""

from typing import Any

from ingest.served_with import of_arguments
from ingest.stated import number, positive
from warehouse.errors import UnknownKey

_ENGINES = ("vllm", "sglang", "tgi", "tensorrt-llm")


def facts_of(said: dict[str, Any]) -> dict[str, Any]:
    """Return the facts, in the contract's words; None for what the scenario does not say."""
    scenario = _object(said.get("scenario"))
    if isinstance(scenario.get("stack"), list):
        return _of_stack(scenario) | _load(scenario)
    return _of_host(scenario) | _load_before(scenario)


def _of_host(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of version 0.1, whose hosts and engines stand in lists of the same order."""
    model, host = _object(scenario.get("model")), _object(scenario.get("host"))
    accelerators = _objects(host.get("accelerator"))
    engines = _objects(_object(scenario.get("platform")).get("engine"))
    sizes = [_object(one.get("parallelism")) for one in accelerators]
    facts = {
        "model": _text(model.get("name")),
        "precision": _text(model.get("quantization")),
        "gpu": _alike([one.get("model") for one in accelerators]),
        "gpu_count": _sum([positive(one, "count") for one in accelerators]),
        "tensor_parallel_size": _alike([positive(size, "tp") for size in sizes]),
        "engine": _engine(_alike([one.get("name") for one in engines])),
        "engine_version": _alike([_text(one.get("version")) for one in engines]),
    }
    own = _arguments({f"engine {n}": _object(one.get("args")) for n, one in enumerate(engines)})
    return _first(facts, own)


def _of_stack(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of version 0.2: components of which some are engines, each with replicas."""
    stack = _objects(scenario["stack"])
    engines = [
        one for one in stack if _object(one.get("standardized")).get("kind") == "inference_engine"
    ]
    said = [_object(one["standardized"]) for one in engines]
    cards = [_object(one.get("accelerator")) for one in said]
    sizes = [_object(card.get("parallelism")) for card in cards]
    counts = [
        (positive(card, "count") or 0) * (positive(one, "replicas") or 1)
        for card, one in zip(cards, said, strict=True)
    ]
    facts = {
        "model": _alike([_object(one.get("model")).get("name") for one in said]),
        "gpu": _alike([card.get("model") for card in cards]),
        "gpu_count": _sum(counts),
        "tensor_parallel_size": _alike([positive(size, "tp") for size in sizes]),
        "engine": _engine(_alike([one.get("tool") for one in said])),
    }
    own = {
        f"{one.get('role') or 'engine'} {n}": _object(_object(whole.get("native")).get("args"))
        for n, (one, whole) in enumerate(zip(said, engines, strict=True))
    }
    return _first(facts, _arguments(own))


def _first(facts: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of the report's own words, and what only the servers' arguments state."""
    return own | {key: value for key, value in facts.items() if value is not None}


def _arguments(arguments: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what the arguments of the engines state, by the engines' names; where they differ, all
    stand beside one another. The first that states a speculation tells the arm."""
    told = {name: _stated(args) for name, args in arguments.items() if args}
    facts: dict[str, Any] = {}
    for one in reversed(told.values()):
        facts |= one
    servers = {name: one["server_args"] for name, one in told.items() if "server_args" in one}
    if len(servers) == len(told) and len({repr(one) for one in servers.values()}) == 1:
        return facts
    return facts | ({"server_args": servers} if servers else {})


def _stated(args: dict[str, Any]) -> dict[str, Any]:
    """Return what one engine's arguments state; of a speculation that cannot be read no arm."""
    try:
        return of_arguments(args)
    except UnknownKey:
        return {"server_args": args}


def _load(scenario: dict[str, Any]) -> dict[str, Any]:
    said = _object(_object(scenario.get("load")).get("standardized"))
    rate, at_once = positive(said, "rate_qps"), positive(said, "concurrency")
    lengths = [
        number(_object(said.get(side)), "value") for side in ("input_seq_len", "output_seq_len")
    ]
    source = _text(said.get("source"))
    known = source and None not in lengths
    return {
        "dataset": f"{source} {lengths[0]:g}/{lengths[1]:g}" if known else source,
        "rate": rate,
        "load_profile": "concurrent" if rate is None and at_once else None,
        "concurrency": int(at_once) if at_once else None,
    }


def _load_before(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the load of version 0.1, which passes the load generator's own settings on, each with
    words of its own."""
    load = _object(scenario.get("load"))
    args = _object(load.get("args"))
    strategy = _object(args.get("strategy"))
    at_once = positive(args, "max_concurrency") or positive(strategy, "streams")
    rate = positive(args, "request_rate") or positive(strategy, "rate")
    return {
        "dataset": _text(load.get("type")),
        "rate": rate,
        "load_profile": "concurrent" if rate is None and at_once else None,
        "concurrency": int(at_once) if at_once else None,
    }


def _engine(name: Any) -> str | None:
    """Return an engine's own name; what packs it, as llm-d does, says nothing of it."""
    text = str(name or "").lower()
    return next((known for known in _ENGINES if known in text), None)


def _alike(values: list[Any]) -> Any:
    """Return the value that all state; None where they differ or state nothing."""
    known = {value for value in values if isinstance(value, str | int | float)}
    return known.pop() if len(known) == 1 else None


def _sum(counts: list[Any]) -> int | None:
    """Return the sum; None where one of them is unknown."""
    return sum(counts) or None if all(counts) else None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
