"""Random studies as the queries ``cells``, ``measurements`` and ``acceptance`` would return them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from answers.ground import Ground, ground_of
from answers.ground import WarehouseRows as Rows
from tests.truth.frames import FACTS, FIRST, MADE, OUTPUT, PROMPT, START
from tests.truth.random_studies import RandomStudy
from tests.truth.studies import Floats

_BASELINE: dict[str, Any] = {
    "spec_method": "none", "num_speculative_tokens": np.nan, "speculative_config": None,
    "arm_label": "baseline",
}  # fmt: skip


def ground_of_studies(studies: Sequence[RandomStudy], seed: int = 0) -> Ground:
    """What is read from a warehouse that holds these studies."""
    parts = [cell_rows(study, seed) for study in studies]
    cells = pd.concat(parts, ignore_index=True)
    flags = pd.DataFrame(columns=["cell_id", "name", "sentence", "severity"])
    told = ["length", "latency", "first", "asked"]
    rows = Rows(cells.drop(columns=told), _measurements(cells), flags, _acceptance(cells))
    return ground_of(rows, frozenset(cells["cell_id"]))


def cell_rows(study: RandomStudy, seed: int = 0) -> pd.DataFrame:
    """The cells of one study, and of each its mean acceptance ``length``, its ``latency`` and time to
    the ``first`` token (s), and what was ``asked`` of the server (at once, or a second)."""
    random = np.random.default_rng([seed, int(study.name), 1])
    shape = (*study.truth.shape, study.repeats)
    log = study.truth[..., None] + _chance(study, random)
    where = np.nonzero(np.broadcast_to(study.measured[..., None], shape))
    dataset, arm, load, repeat = where
    asked = np.array([one.value for one in study.loads])
    slower = (asked / asked.max()) ** 0.2
    latency = study.pace * OUTPUT * (slower[:, None] * np.exp(-log))[where]
    first = FIRST * np.exp(study.noise * random.standard_normal(shape))[where]
    ids = [f"{int(study.name):05x}{number:015x}" for number in range(len(arm))]
    arms = (_BASELINE, *(one.facts for one in study.arms))
    turn = repeat * 3 * len(arms) + (arm + repeat) % len(arms)
    return pd.DataFrame({
        "cell_id": ids, "path": ids, **FACTS,
        **{name: _taken([one[name] for one in arms], arm) for name in _BASELINE},
        "study": f"study-{study.name}", "model": f"model-{study.name}",
        "dataset": _taken(study.datasets, dataset),
        "prompt_set_hash": _taken([f"{at:032x}" for at in range(len(asked))], load),
        **_load(study, asked[load]),
        "launch": [f"a{a}-r{r}" for a, r in zip(arm, repeat, strict=True)], "repeat": repeat,
        "load_generator": "guidellm", "reported_definition": "guidellm>=0.7.4",
        "started_at": START + pd.to_timedelta(turn * 3600 + dataset * 900 + load * 60, unit="s"),
        "status": "good", "errored": 0, "completed": MADE, "incomplete": 0, "requests_made": MADE,
        "draft_model": None, "length": study.length[where[:3]], "latency": latency, "first": first,
        "asked": asked[load],
    }).astype({"num_speculative_tokens": "float64"})  # fmt: skip


def _chance(study: RandomStudy, random: np.random.Generator) -> Floats:
    shape = (*study.truth.shape, study.repeats)
    launch = study.launch * random.standard_normal((1, shape[1], 1, shape[3]))
    return np.asarray(study.noise * random.standard_normal(shape) + launch)


def _taken(values: Sequence[Any], at: Any) -> Any:
    known = np.empty(len(values), dtype=object)
    known[:] = list(values)
    return known[at]


def _load(study: RandomStudy, asked: Floats) -> dict[str, Any]:
    if study.rates:
        return {"load_profile": study.loads[0].kind, "rate": asked, "concurrency": np.nan}
    return {"load_profile": "concurrent", "rate": np.nan, "concurrency": asked}


def _measurements(cells: pd.DataFrame) -> pd.DataFrame:
    """Requests of a cell are all alike, so every statistic of a latency is its value."""
    return pd.concat(
        [
            pd.DataFrame({"cell_id": cells["cell_id"], "origin": "reported", "metric": metric,
                          "statistic": statistic, "value": value})
            for metric, statistic, value in _values(cells)
        ],
        ignore_index=True,
    ).dropna(subset=["value"])  # fmt: skip


def _values(cells: pd.DataFrame) -> Iterator[tuple[str, str, Any]]:
    latency, first, rates = cells["latency"], cells["first"], cells["rate"].notna()
    speed = cells["asked"] * OUTPUT / latency.where(~rates, 1.0)
    yield "output_throughput", "mean", speed
    yield "total_throughput", "mean", speed * (OUTPUT + PROMPT) / OUTPUT
    yield "request_attainment", "mean", pd.Series(1.0, cells.index).where(rates)
    yield "output_tokens", "mean", float(OUTPUT)
    yield "ttft", "p95", first * 1e3
    yield "itl", "p95", (latency - first) / (OUTPUT - 1) * 1e3
    yield "tpot", "p95", latency / OUTPUT * 1e3
    yield "request_latency", "p50", latency


def _acceptance(cells: pd.DataFrame) -> pd.DataFrame:
    counted = cells[cells["length"].notna()]
    return pd.DataFrame({
        "cell_id": counted["cell_id"], "source": "counters",
        "rate": (counted["length"] - 1) / counted["num_speculative_tokens"],
        "mean_length": counted["length"],
    }).reset_index(drop=True)  # fmt: skip
