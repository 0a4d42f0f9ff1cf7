"""What a server and its machine did during a cell, from sampled gauges and counters.

Counters become rates between two moments: tokens per second, accepted / drafted tokens, and
1 + accepted tokens / drafts (Leviathan et al. 2023, arXiv:2211.17192, as vLLM counts them).
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis.frames import declared

#: Gauges that are shown as they were sampled: name of a sample -> name of its line.
GAUGES: dict[str, str] = {
    "num_requests_running": "running",
    "num_requests_waiting": "waiting",
    "kv_cache_usage_perc": "KV cache",
    "gpu_sm_clock_mhz": "GPU clock",
    "cpu_mhz": "processor clock",
    "gpu_power_watts": "GPU power",
    "gpu_temperature_celsius": "GPU temperature",
    "cpu_cores_used_by_others": "cores of others",
    "cpu_steal_share": "stolen",
}
_DRAFTS, _DRAFTED, _ACCEPTED = (
    "spec_decode_num_drafts",
    "spec_decode_num_draft_tokens",
    "spec_decode_num_accepted_tokens",
)
_COUNTERS = ("generation_tokens", _DRAFTS, _DRAFTED, _ACCEPTED)
#: Rates are taken over windows at least so long: a step of the engine is no trend. Seconds.
WINDOW_S = 2.0
#: A line has at most about so many points.
MOST_POINTS = 240


def lines(samples: pd.DataFrame) -> pd.DataFrame:
    """Return ``line``, ``at`` (s since the first sample) and ``value`` of what can be told from
    samples.

    ``samples``: at (unix s), name, value. Lines: those of GAUGES (requests, ratios, MHz, W, °C,
    cores), acceptance rate (ratio), mean acceptance length (tokens/step), output (tok/s).
    """
    if samples.empty:
        return pd.DataFrame({"line": [], "at": [], "value": []})
    plain = samples.assign(name=samples["name"].str.removeprefix("vllm:"))
    wide = plain.pivot_table(index="at", columns="name", values="value", aggfunc="last")
    wide.index = wide.index - wide.index.min()
    found = {line: wide[name].dropna() for name, line in GAUGES.items() if name in wide}
    # The growth of every counter from window to window; a window in which one fell is left out. The
    # machine is looked at between the moments of the server's own samples.
    counted = wide[[name for name in _COUNTERS if name in wide]].dropna(how="all")
    windows = (counted.index.to_numpy() // WINDOW_S).astype(int)
    moments = pd.Series(counted.index, index=counted.index).groupby(windows).last()
    grown = counted.groupby(windows).last().diff().assign(seconds=moments.diff())
    grown.index = moments.to_numpy()
    grown = grown[(grown >= 0).all(axis=1) & (grown["seconds"] > 0)]
    rates: dict[str, tuple[tuple[str, ...], Callable[[pd.DataFrame], pd.Series]]] = {
        "output": (("generation_tokens",), lambda g: g["generation_tokens"] / g["seconds"]),
        "acceptance rate": ((_ACCEPTED, _DRAFTED), lambda g: g[_ACCEPTED] / g[_DRAFTED]),
        "mean acceptance length": ((_ACCEPTED, _DRAFTS), lambda g: 1 + g[_ACCEPTED] / g[_DRAFTS]),
    }
    for line, (needed, formula) in rates.items():
        if set(needed) <= set(grown):
            found[line] = formula(grown).replace([np.inf, -np.inf], np.nan).dropna()
    thinned = []
    for line, values in found.items():
        if not values.empty:
            thin = values.iloc[:: len(values) // MOST_POINTS + 1]
            thinned.append(pd.DataFrame({"line": line, "at": thin.index, "value": thin.to_numpy()}))
    told = pd.concat(thinned, ignore_index=True) if thinned else lines(samples.iloc[:0])
    return declared("server lines", told)
