"""One metric of every cell, placed by arm: what duels and tables of K are made of."""

import pandas as pd

from analysis.matching.arms import place_arms


def arm_values(
    cells: pd.DataFrame, measurements: pd.DataFrame, metric: str, statistic: str
) -> pd.DataFrame:
    """A row per cell that has the metric: the columns of ``place_arms``, cell_id and value.

    ``measurements``: cell_id, metric, statistic, value.
    """
    wanted = measurements[
        (measurements["metric"] == metric) & (measurements["statistic"] == statistic)
    ]
    return wanted[["cell_id", "value"]].merge(place_arms(cells).reset_index(), on="cell_id")


def with_baseline(values: pd.DataFrame) -> pd.DataFrame:
    """The rows once for each family of their setting, ``league`` numbering (setting, family).

    A baseline stands in the league of every family of its setting.
    """
    drafted = values[values["k"] > 0]
    leagues = drafted[["setting", "family"]].drop_duplicates().reset_index(drop=True)
    leagues = leagues.assign(league=leagues.index)
    baselines = values[values["k"] == 0].drop(columns="family").merge(leagues, on="setting")
    mine = drafted.merge(leagues, on=["setting", "family"])
    return pd.concat([baselines, mine], ignore_index=True)
