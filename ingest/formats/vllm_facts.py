"""What a ``vllm bench serve`` result says of its cell beside the measurements: engine, load, time."""

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from warehouse.errors import InvalidInput
from warehouse.rows import Flag

if TYPE_CHECKING:
    from ingest.formats.vllm_bench import Bench

#: ``--backend`` names the interface that is spoken. These are named after a server; ``openai`` and
#: its kin are spoken by any.
_SERVERS = ("vllm", "sglang", "tgi", "tensorrt-llm", "scalellm", "deepspeed-mii", "llama.cpp")
_CHAT = ("openai-chat",)
_TEXT = ("openai", "vllm", "sglang", "lmi", "scalellm", "llama.cpp")

LOCAL_TIME = Flag(
    "local_time",
    "info",
    "The result says when it ended in the local time of its machine, which is shown as if it were "
    "UTC: it orders the results of one machine and may be up to 14 hours off.",
)


def facts_of(bench: "Bench") -> dict[str, Any]:
    """Return the facts that the result states or implies, in the contract's words."""
    interface = bench.endpoint_type or bench.backend or ""
    facts = {
        "model": bench.model_id,
        "engine": _engine(bench),
        "request_format": _request_format(interface),
        "num_speculative_tokens": _positions(bench),
        **load_of(bench),
    }
    return {key: value for key, value in facts.items() if value is not None}


def started_at(bench: "Bench") -> datetime | None:
    """Return when the load began, by the clock of its machine: ``date`` is written when it has
    ended."""
    try:
        ended = datetime.strptime(bench.date or "", "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        return ended - timedelta(seconds=bench.duration)
    except (ValueError, OverflowError):
        return None


def _engine(bench: "Bench") -> str | None:
    """Return the engine, where it is known: only a vLLM server counts drafts under the names that
    the bench asks for."""
    if bench.spec_decode_num_drafts is not None:
        return "vllm"
    return bench.backend if bench.backend in _SERVERS else None


def _request_format(interface: str) -> str | None:
    if interface in _CHAT:
        return "chat_completions"
    return "text_completions" if interface in _TEXT else None


def _positions(bench: "Bench") -> int | None:
    """Return the most draft tokens of a step: the server has one counter for each position."""
    return len(bench.spec_decode_per_position_acceptance_rates or ()) or None


def load_of(bench: "Bench") -> dict[str, Any]:
    """Return the load's facts; a rate that grows is a trace of its own, where its bounds are known."""
    limit, rate = bench.max_concurrency, _number(bench.request_rate)
    if bench.ramp_up_strategy is not None and bench.ramp_up_start_rps is None:
        return {}
    if bench.ramp_up_strategy is not None:
        grows = f"from {bench.ramp_up_start_rps} to {bench.ramp_up_end_rps} requests/s"
        trace = f"{bench.ramp_up_strategy} ramp-up {grows}"
        return {"load_profile": "trace", "trace": trace, "concurrency": limit}
    if rate == math.inf:
        return {"load_profile": "concurrent" if limit else "throughput", "concurrency": limit}
    if rate is None or rate <= 0:
        return {}
    return {"load_profile": _arrivals(bench), "rate": rate, "concurrency": limit}


def _arrivals(bench: "Bench") -> str | None:
    """Return how requests arrive: gaps between them follow a gamma distribution, Poisson's at
    burstiness 1."""
    burstiness = _number(bench.burstiness)
    if burstiness is None or burstiness <= 0:
        return None
    if burstiness == math.inf:
        return "constant"
    return "poisson" if burstiness == 1 else f"gamma (burstiness {burstiness:g})"


def _number(value: float | str | None) -> float | None:
    try:
        number = math.nan if value is None else float(value)
    except ValueError:
        raise InvalidInput(
            f"This vllm bench result says {str(value)[:40]!r} where the rate of its requests belongs; "
            "run the benchmark again."
        ) from None
    return None if math.isnan(number) else number
