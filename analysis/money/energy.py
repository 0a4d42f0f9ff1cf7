"""Energy per token, where the power of the GPUs was recorded during the load."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.money.cost import MILLION

#: What the runners' sampler calls it: watts of each GPU, or of all of them added up.
POWER = "gpu_power_watts"
JOULES_PER_KWH = 3_600_000
#: ``draftboard:gpu_power_watts{gpu="0"}`` and the bare name are one series.
_NAME = r"^(?:[^{]*:)?([^:{]+)"


@dataclass(frozen=True)
class Energy:
    """Energy of the GPUs over the measured window; the rest of the machine is not in it."""

    joules: float
    mean_watts: float
    joules_per_output_token: float
    kwh_per_million_output_tokens: float


def energy(
    samples: pd.DataFrame, window: tuple[float, float], output_tokens: float
) -> Energy | None:
    """Return the energy of a load: trapezoids under the power curve inside ``window`` (unix s),
    also divided by the output tokens.

    None where no power was recorded before, in and after the window: half a curve is no energy.
    """
    names = samples["name"].astype("str").str.extract(_NAME, expand=False)
    rows = samples[names == POWER]
    power = rows.groupby("at", sort=True)["value"].sum().rename("watts").reset_index()
    begin, end = window
    at, watts = power["at"].to_numpy(), power["watts"].to_numpy()
    covered = len(at) >= 2 and _covers(at, begin, end)
    if not covered or not end > begin or not output_tokens > 0:
        return None
    inside = (at > begin) & (at < end)
    times = np.concatenate([[begin], at[inside], [end]])
    joules = float(np.trapezoid(np.interp(times, at, watts), times))
    per_token = joules / output_tokens
    return Energy(joules, joules / (end - begin), per_token, per_token * MILLION / JOULES_PER_KWH)


def _covers(at: "np.ndarray[tuple[int], np.dtype[np.float64]]", begin: float, end: float) -> bool:
    """Return whether the samples reach over the window, give or take their own spacing."""
    gap = float(np.median(np.diff(at)))
    return bool(at[0] <= begin + gap and at[-1] >= end - gap)
