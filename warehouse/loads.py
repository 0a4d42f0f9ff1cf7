"""A load: what one level of a benchmark asked of the server, one idea for every load generator.

So many requests at once, so many a second with their arrival process, a trace, or as fast as the
server takes them. Two levels have the same load where their ``Load`` is equal.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

LoadKind = Literal["concurrency", "constant", "poisson", "trace", "unbounded", "shares"]
#: Loads that lie on one scale, or are of one kind: each is decided apart.
Axis = Literal["concurrency", "rate", "trace", "unbounded"]

_KINDS: tuple[LoadKind, ...] = get_args(LoadKind)
_ONE_AT_A_TIME = ("synchronous",)
_CLOSED = ("concurrent", *_ONE_AT_A_TIME)
_RATES: dict[str, LoadKind] = {"constant": "constant", "poisson": "poisson"}
#: Arrivals of ``vllm bench serve`` with a burstiness other than 1; the profile says which.
_GAMMA = "gamma"


@dataclass(frozen=True, order=False)
class Load:
    """What was asked of the server. ``value`` is requests at once or requests per second; None for
    a trace and without a bound.

    ``poisson`` is every process with random arrivals at a mean rate: where it is not Poisson's,
    ``name`` says which it is. ``name`` also says that arrivals are unknown, and the limit of
    requests at once that a rate has, so that only equal loads are equal. ``shares`` is no load that
    is measured: it stands for traffic over several, which ``name`` tells.
    """

    kind: LoadKind
    value: float | None
    name: str | None = None

    @property
    def is_rate(self) -> bool:
        """Whether requests are offered at a rate, whether or not the server keeps up."""
        return self.kind in ("constant", "poisson")

    @property
    def is_open(self) -> bool:
        """Whether requests are sent whether or not the server is ready for them: at a rate, or as a
        trace says."""
        return self.is_rate or self.kind == "trace"

    @property
    def axis(self) -> Axis:
        """The kind of load that is decided by itself: so many at once, rates, traces, or no
        bound."""
        if self.is_rate:
            return "rate"
        return self.kind if self.kind == "trace" or self.kind == "unbounded" else "concurrency"

    @property
    def offered_rate(self) -> float | None:
        """The requests per second that are offered; None where the load is no rate."""
        return self.value if self.is_rate else None

    @property
    def text(self) -> str:
        """The load as a sentence says it: ``16 at once``, ``8 requests/s (Poisson)``."""
        if self.kind == "concurrency":
            return f"{_number(self.value)} at once"
        if self.is_rate:
            by = f" ({self._arrivals})" if self._arrivals is not None else ""
            return f"{_number(self.value)} requests/s{by}"
        if self.kind == "shares":
            return self.name or "several loads"
        return f"trace {self.name}" if self.kind == "trace" else "as fast as it takes them"

    @property
    def short(self) -> str:
        """The load as the axis of a chart says it: ``16``, ``8/s``, ``8/s Poisson``; different for
        different loads."""
        if self.kind == "concurrency":
            return _number(self.value)
        if self.is_rate:
            return " ".join(filter(None, (f"{_number(self.value)}/s", self._arrivals)))
        if self.kind == "shares":
            return "your loads"
        return self.name or "trace" if self.kind == "trace" else "unbounded"

    @property
    def order(self) -> tuple[int, float, str]:
        """A key that sorts loads by kind, value and name."""
        return _KINDS.index(self.kind), self.value or 0.0, self.name or ""

    def as_json(self) -> dict[str, str | float | None]:
        """Return ``kind``, ``value`` and ``name``, null where there is none, as a dict for JSON."""
        return {"kind": self.kind, "value": self.value, "name": self.name}

    @property
    def _arrivals(self) -> str | None:
        return self.name or ("Poisson" if self.kind == "poisson" else None)


def load_of(
    profile: str | None,
    concurrency: float | int | None,
    rate: float | None,
    trace: str | None = None,
) -> Load | None:
    """Return the load that a cell's facts state; None where they do not say which.

    ``profile`` is a load generator's own word. A rate of infinity, and ``throughput``, are bounded
    only by the concurrency. A rate with a limit of requests at once is that rate, limited.
    """
    profile, trace = _text(profile), _text(trace)
    at_once = 1.0 if profile in _ONE_AT_A_TIME else _positive(concurrency)
    if trace is not None or profile in ("trace", "replay"):
        return None if trace is None else Load("trace", None, trace)
    endless = isinstance(rate, Real) and float(rate) == math.inf
    if profile == "throughput" or (profile is None and endless):
        return Load("unbounded", None) if at_once is None else Load("concurrency", at_once)
    per_second = None if profile in _CLOSED else _positive(rate)
    if per_second is not None:
        return _rate(profile, per_second, at_once)
    is_rate = profile is not None and (profile in _RATES or profile.startswith(_GAMMA))
    return None if at_once is None or is_rate else Load("concurrency", at_once)


def _rate(profile: str | None, per_second: float, at_once: float | None) -> Load:
    name = None if profile in _RATES else "arrivals unknown"
    kind = _RATES.get(profile or "", "constant")
    if profile is not None and profile.startswith(_GAMMA):
        kind, name = "poisson", profile
    limit = None if at_once is None else f"at most {_number(at_once)} at once"
    if limit and name is None and kind == "poisson":
        name = "Poisson"
    return Load(kind, per_second, ", ".join(filter(None, (name, limit))) or None)


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.10g}"


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _positive(value: object) -> float | None:
    number = float(value) if isinstance(value, Real) else math.nan
    return number if 0 < number < math.inf else None
