"""``draftboard slo``: the largest load of each arm that meets an SLO, and its goodput."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option

if TYPE_CHECKING:
    import pandas as pd

    from analysis.matching.arm_levels import ArmLevels
    from analysis.service.goodput import Goodput
    from analysis.service.largest_load import Reach
    from analysis.service.slo import Slo
    from warehouse.store import Reader

Arm = tuple[int, int]
#: What an answer says of each arm, besides its label.
TOLD = ("model", "dataset", "gpu", "tensor_parallel_size", "evidence")


@click.command()
@click.argument("requirement", metavar="SLO")
@warehouse_option
@filter_options
@click.option("--no-goodput", is_flag=True, help="Do not read the requests: levels only.")
@json_option
def slo(
    requirement: str, warehouse: Path | None, no_goodput: bool, as_json: bool, **given: Any
) -> None:
    """The largest load at which each arm meets SLO, what stops it, and its goodput.

    SLO is one or more bounds, metric:statistic<value, separated by ';'. Goodput counts the
    requests that meet the bounds themselves, so there the statistic plays no part.

    Example: draftboard slo 'ttft:p95<200ms; itl:p99<10ms; latency:p50<2s' --dataset code
    """
    from analysis.service.slo import parse

    asked = parse(requirement)
    levels, loads, goodputs = _answers(warehouse, given, asked, not no_goodput)
    if as_json:
        click.echo(json.dumps(_as_json(asked, levels, loads, goodputs), allow_nan=False))
    elif not loads:
        click.echo("No cell matches. `draftboard runs` lists what there is.")
    else:
        _show(asked, levels, loads, goodputs)


def _answers(
    warehouse: Path | None, given: Mapping[str, Any], asked: "Slo", wanted: bool
) -> "tuple[ArmLevels, dict[Arm, Reach], dict[str, Goodput | None]]":
    from analysis.matching.arm_levels import arm_levels
    from analysis.service.largest_load import largest_loads
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    filters = filters_from(dict(given))
    # Every cell has a throughput: a level that lacks a bound's metric is told as such, not lost.
    metrics = [*asked.metrics, "output_throughput", "achieved_concurrency"]
    statistics = [*asked.statistics, "mean"]
    with Reader(warehouse_path(warehouse)) as reader:
        cells = queries.cells(reader, filters).to_pandas()
        rows = queries.measurements(reader, filters, metrics, statistics).to_pandas()
        levels = arm_levels(cells, rows)
        goodputs = _goodputs(reader, cells, levels, asked) if wanted else {}
    loads = largest_loads(levels, asked)
    return levels, dict(sorted(loads.items(), key=lambda i: _place(levels, i[0]))), goodputs


def _place(levels: "ArmLevels", arm: Arm) -> tuple[str, ...]:
    """Where an arm stands in the answer: by setting, the baseline before the others."""
    keys = _keys(levels, arm)
    label = str(keys["arm_label"])
    return (*(str(keys[name]) for name in TOLD), "" if label == "baseline" else label)


def _goodputs(
    reader: "Reader", cells: "pd.DataFrame", levels: "ArmLevels", asked: "Slo"
) -> "dict[str, Goodput | None]":
    from analysis.service.goodput import COLUMNS, goodput, per_request
    from analysis.service.goodput_levels import window
    from warehouse import queries

    bounds = per_request(asked)
    if bounds is None:
        return {}
    found = {}
    kept = cells[cells["cell_id"].isin(levels.values["cell_id"].unique())]
    for cell in kept.to_dict("records"):
        requests = queries.requests(reader, cell["cell_id"], COLUMNS).to_pandas()
        if not requests.empty:
            found[cell["cell_id"]] = goodput(requests, bounds, window(cell))
    return found


def _level_rows(
    levels: "ArmLevels", arm: Arm, load: "Reach", goodputs: "Mapping[str, Goodput | None]"
) -> list[dict[str, Any]]:
    from analysis.service.goodput_levels import pooled

    values = levels.values
    mine = values[(values["setting"] == arm[0]) & (values["arm_id"] == arm[1])]
    places = {load: place for place, load in enumerate(levels.loads)}
    ids = mine.groupby("load")["cell_id"].unique()
    flown = mine[mine["metric"] == "achieved_concurrency"]
    held = flown[flown["statistic"] == "mean"].groupby("load")["value"].mean().to_dict()
    rows = []
    for level in load.levels:
        place = places[level.load]
        known = [g for i in ids[place] if (g := goodputs.get(i)) is not None]
        flying = held.get(place)
        rows.append({**vars(level), "achieved_concurrency": flying, **vars(pooled(known))})
    return rows


def _keys(levels: "ArmLevels", arm: Arm) -> dict[str, Any]:
    row = levels.keys.loc[[arm]].to_dict("records")[0]
    known = {name: row.get(name) for name in ("arm_label", *TOLD)}
    return {
        name: None if value is None or value != value else value for name, value in known.items()
    }


def _as_json(
    asked: "Slo",
    levels: "ArmLevels",
    loads: "Mapping[Arm, Reach]",
    goodputs: "Mapping[str, Goodput | None]",
) -> dict[str, Any]:
    arms = [
        {
            **_keys(levels, arm),
            "largest_load": None if load.largest is None else load.largest.as_json(),
            "sentence": load.sentence,
            "levels": [
                {**row, "load": row["load"].as_json()}
                for row in _level_rows(levels, arm, load, goodputs)
            ],
        }
        for arm, load in loads.items()
    ]
    return {"slo": asked.text, "arms": arms}


def _show(
    asked: "Slo",
    levels: "ArmLevels",
    loads: "Mapping[Arm, Reach]",
    goodputs: "Mapping[str, Goodput | None]",
) -> None:
    from commands.output import show_table

    click.echo(f"SLO: {asked.text}")
    header = ["arm", "dataset", "TP", "evidence", "largest load", "why"]
    rows, detail = [], []
    for arm, load in loads.items():
        keys = {name: "unknown" if v is None else str(v) for name, v in _keys(levels, arm).items()}
        who = [keys["arm_label"], keys["dataset"], keys["tensor_parallel_size"]]
        largest = "no load" if load.largest is None else load.largest.text
        rows.append([*who, keys["evidence"], largest, load.sentence])
        detail += [[*who, *_level_text(row)] for row in _level_rows(levels, arm, load, goodputs)]
    show_table(header, rows)
    click.echo()
    header = [
        "arm", "dataset", "TP", "load", "in flight", "meets it", "repeats meeting", "good requests",
        "goodput (req/s)", "good output (tok/s)",
    ]  # fmt: skip
    show_table(header, detail)
    if not goodputs:
        click.echo("Goodput: nothing was counted (no request records, or no bound on requests).")


def _level_text(row: Mapping[str, Any]) -> list[str]:
    from analysis.tables import number

    met = {True: "yes", False: "no", None: "not measured"}[row["met"]]
    share = row["good_share"]
    return [
        row["load"].short, number(row["achieved_concurrency"], 1), met, f"{row['meeting']} of {row['repeats']}",
        "unknown" if share is None else f"{share:.1%}",
        number(row["goodput"], 2), number(row["good_output_throughput"], 1),
    ]  # fmt: skip
