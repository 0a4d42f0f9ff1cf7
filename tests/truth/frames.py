"""Generated studies as the queries ``cells`` and ``measurements`` would return them.

Each trial is a study of its own, many in one frame: what the warehouse would yield had each of them
been measured, dropped and ingested (``drops`` does that for some, and the answers are the same).
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from tests.truth.studies import Drawn, Floats

PROMPT, OUTPUT = 50, 101
#: Tokens per second of one stream without speculation, and seconds to its first token.
SPEED, FIRST = 100.0, 0.05
START = pd.Timestamp("2026-03-01", tz="UTC")
#: Requests of a cell at a rate, and of a sampled one.
AT_A_RATE, MADE = 40, 100

FACTS: dict[str, Any] = {
    "precision": "bfloat16", "engine": "vllm", "engine_version": "0.32.0",
    "gpu": "H200", "gpu_count": 1, "tensor_parallel_size": 1, "prefix_caching": False,
    "dataset": "prose", "request_format": "chat_completions",
    "temperature": 0.0, "max_tokens": OUTPUT, "ignore_eos": True, "evidence": "gpu",
}  # fmt: skip


@dataclass(frozen=True)
class Frames:
    """``cells`` and ``measurements`` as the queries of those names return them."""

    cells: pd.DataFrame
    measurements: pd.DataFrame


@dataclass(frozen=True)
class Cells:
    """Everything of (trials, arms, loads, rounds) in one row each: ``trial``, ``arm``, ``load`` (a
    place), ``repeat``; ``asked``: requests at once or a second; ``throughput`` (tokens/s),
    ``latency`` and ``first`` (s)."""

    trial: Any
    arm: Any
    load: Any
    repeat: Any
    asked: Floats
    throughput: Floats
    latency: Floats
    first: Floats

    @property
    def itl(self) -> Floats:
        """Seconds between tokens."""
        return (self.latency - self.first) / (OUTPUT - 1)


def cells_of(drawn: Drawn) -> Cells:
    """One stream serves SPEED tokens a second, whatever the load: only ratios matter here."""
    places = [x.ravel() for x in np.indices(drawn.speed.shape)]
    asked = np.array(drawn.family.loads, dtype=np.float64)[places[2]]
    latency = OUTPUT / (SPEED * np.exp(drawn.speed.ravel()))
    first = FIRST * np.exp(-drawn.first.ravel())
    if drawn.family.kind == "poisson":
        throughput = AT_A_RATE * OUTPUT / ((AT_A_RATE - 1) / asked + latency)
    else:
        throughput = asked * OUTPUT / latency
    return Cells(*places, asked, throughput, latency, first)


def frames(drawn: Drawn, first_trial: int = 0) -> Frames:
    """The studies numbered from ``first_trial``."""
    rows = cell_rows(drawn, first_trial)
    return Frames(rows, _measurements(cells_of(drawn), rows["cell_id"], drawn.family.kind))


def cell_rows(drawn: Drawn, first_trial: int) -> pd.DataFrame:
    """The cells of the studies numbered from ``first_trial``, in the order of (trials, arms, loads,
    rounds)."""
    found = cells_of(drawn)
    ids = [f"{first_trial:05x}{number:015x}" for number in range(len(found.trial))]
    arms = [{}, *(arm_facts(arm, drawn.family.methods) for arm in range(1, drawn.speed.shape[1]))]
    names = (
        "spec_method",
        "num_speculative_tokens",
        "draft_model",
        "speculative_config",
        "arm_label",
    )
    told = {name: np.array([a.get(name) for a in arms], dtype=object)[found.arm] for name in names}
    # The arms of a round follow each other, and the next round comes later: pairs are told by time.
    turn = found.repeat * 3 * len(arms) + found.arm
    rows = pd.DataFrame({"cell_id": ids, **dict(FACTS.items())})
    names = [f"{first_trial + trial:05d}" for trial in range(len(drawn.speed))]
    # A baseline of another study suits where all else is equal: each has a model of its own.
    studies, models = (
        np.array([f"{w}-{n}" for n in names], dtype=object) for w in ("study", "model")
    )
    hashes = np.array([f"{load:032x}" for load in range(drawn.speed.shape[2])], dtype=object)
    return rows.assign(
        study=studies[found.trial], model=models[found.trial], prompt_set_hash=hashes[found.load], 
        **told, **_load(drawn.family.kind, found), **_launch(drawn.family.kind, found),
        started_at=START + pd.to_timedelta(turn * 3600 + found.load * 60, unit="s"),
        status="good", path=ids, errored=0, completed=MADE, incomplete=0, requests_made=MADE,
    ).assign(
        spec_method=lambda x: x["spec_method"].fillna("none"),
        arm_label=lambda x: x["arm_label"].fillna("baseline"),
        num_speculative_tokens=lambda x: x["num_speculative_tokens"].astype("float64"),
    )  # fmt: skip


def arm_facts(arm: int, methods: bool) -> dict[str, Any]:
    """What a record says of an arm: a method of its own, or a draft model with so many tokens."""
    if not arm:
        return {}
    k = 3 if methods else arm
    draft = f"draft-{arm}" if methods else "draft"
    config = f'{{"method": "draft_model", "model": "{draft}", "num_speculative_tokens": {k}}}'
    return {
        "spec_method": "draft_model", "num_speculative_tokens": k, "draft_model": draft,
        "speculative_config": config, "arm_label": f"draft_model K={k}",
    }  # fmt: skip


def _load(kind: str, found: Cells) -> dict[str, Any]:
    unknown = np.full(len(found.asked), np.nan)
    if kind == "poisson":
        return {"load_profile": "poisson", "rate": found.asked, "concurrency": unknown}
    return {"load_profile": "concurrent", "rate": unknown, "concurrency": found.asked.astype(int)}


def _launch(kind: str, found: Cells) -> dict[str, Any]:
    if kind == "vllm bench":
        bench = {"load_generator": "vllm-bench", "reported_definition": "vllm-bench"}
        return {**bench, "launch": None, "repeat": np.nan}
    names = [f"a{arm}-r{repeat}" for arm, repeat in zip(found.arm, found.repeat, strict=True)]
    guidellm = {"load_generator": "guidellm", "reported_definition": "guidellm>=0.7.4"}
    return {**guidellm, "launch": np.array(names, dtype=object), "repeat": found.repeat}


def _measurements(found: Cells, ids: pd.Series, kind: str) -> pd.DataFrame:
    origin = "reported" if kind in ("vllm bench", "sampled") else "canonical"
    return pd.concat(
        [
            pd.DataFrame({"cell_id": ids.to_numpy(), "origin": origin, "metric": metric,
                          "statistic": statistic, "value": value})
            for (metric, statistic), value in _values(found, kind).items()
        ],
        ignore_index=True,
    )  # fmt: skip


def _values(found: Cells, kind: str) -> dict[tuple[str, str], Floats]:
    """Requests of a cell are all alike, so every statistic of a latency is its value."""
    latencies = {
        "ttft": found.first * 1e3, "itl": found.itl * 1e3, "tpot": found.latency / OUTPUT * 1e3,
        "request_latency": found.latency, "chunk_gap": found.itl * 1e3,
    }  # fmt: skip
    return _rates(found, kind) | {line: latencies[line[0]] for line in _LINES[kind]}


def _rates(found: Cells, kind: str) -> dict[tuple[str, str], Floats]:
    rates = {
        ("output_throughput", "mean"): found.throughput,
        ("total_throughput", "mean"): found.throughput * (OUTPUT + PROMPT) / OUTPUT,
        ("output_tokens", "mean"): np.full(len(found.asked), float(OUTPUT)),
    }
    if kind != "sampled":
        rates["request_throughput", "mean"] = found.throughput / OUTPUT
    if kind == "poisson":
        rates["request_attainment", "mean"] = np.ones(len(found.asked))
    return rates


_OF_REQUESTS = tuple(
    product(("ttft", "itl", "tpot", "request_latency"), ("mean", "p50", "p95", "p99"))
)
#: The lines of latencies that each kind of result yields, of those that a decision reads.
_LINES: dict[str, tuple[tuple[str, str], ...]] = {
    "complete": _OF_REQUESTS, "poisson": _OF_REQUESTS,
    "sampled": (("ttft", "p95"), ("itl", "p95"), ("tpot", "p95"), ("request_latency", "p50")),
    "vllm bench": tuple(product(("ttft", "itl", "chunk_gap"), ("mean", "p50", "p99"))),
}  # fmt: skip
