"""Two releases of an engine that were measured by turns: what the newer one did to every arm, and to the gain of
every arm over the baseline."""

import json

import numpy as np
import pandas as pd

from analysis.evidence.effects import judged, study_numbers
from analysis.frames import listed, numbered
from analysis.matching.arms import BASELINE, config_of
from analysis.matching.comparison import SETTING, STUDY_TABLE
from warehouse.catalogue import METRICS

#: The lines in which two releases are compared.
COMPARED: tuple[tuple[str, str], ...] = (*STUDY_TABLE, ("mean_acceptance_length", "mean"))


def by_release(cells: pd.DataFrame, before: str, after: str) -> pd.DataFrame:
    """Return the cells of two releases as a comparison takes them: those of ``before`` as baselines, those
    of ``after`` as what is compared with them. The arm joins the server's arguments, which have to
    be equal, so that each arm meets itself alone.

    ``cells`` as the query of that name returns them.
    """
    rows = cells[cells["engine_version"].isin([before, after])]
    older = (rows["engine_version"] == before).to_numpy()
    arguments = [
        json.dumps({**config_of(stated), "arm": f"{label} {config}"})
        for stated, label, config in listed(rows, "server_args", "arm_label", "speculative_config")
    ]
    return rows.assign(
        spec_method=np.where(older, "none", "the newer release"), server_args=arguments
    )


def gain_changes(rows: pd.DataFrame, keys: pd.DataFrame) -> pd.DataFrame:
    """Return what the newer release did to the gains of the arms, rows as ``Effects.levels`` has them: the
    difference (of logarithms) of an arm's change and the baseline's at the same load.

    ``rows`` of ``Effects``, ``load`` -1 over all loads; ``keys`` as ``Comparison.keys``. Launches of
    an arm and of the baseline are independent, so variances add, and degrees of freedom follow
    Satterthwaite (1946).
    """
    names = [name for name in SETTING if name in keys and name != "server_args"]
    place = pd.Series(numbered(keys, names), index=keys.index)
    at = pd.MultiIndex.from_frame(rows[["setting", "arm_id"]])
    rows = rows.assign(
        place=place.loc[at].to_numpy(), own=(keys["arm_label"] == BASELINE).loc[at].to_numpy()
    )
    both = rows[~rows["own"]].merge(
        rows[rows["own"]], on=["place", "load", "metric", "statistic"], suffixes=("", "_baseline")
    )
    arm, baseline = (both[f"variance{end}"] * both[f"weight{end}"] for end in ("", "_baseline"))
    total = arm + baseline

    def freedom(name: str) -> pd.Series:
        parts = arm**2 / both[name] + baseline**2 / both[f"{name}_baseline"]
        return (total**2 / parts).where(parts > 0, 0.0)

    joined = both.assign(
        line=0, log=both["log"] - both["log_baseline"], variance=total, weight=1.0,
        share=(both["share"] * arm + both["share_baseline"] * baseline) / total,
        dof=freedom("dof"), rest_dof=freedom("rest_dof"),
        launches=np.minimum(both["launches"], both["launches_baseline"]),
        independent=both["independent"] & both["independent_baseline"],
        lower=[METRICS[metric].better == "lower" for metric in both["metric"]],
    )  # fmt: skip
    return judged(joined, study_numbers(keys))
