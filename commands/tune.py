"""``draftboard tune``: which K at which load, as vLLM takes it, and which method."""

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option

if TYPE_CHECKING:
    from analysis.drafts.best_k import Goal
    from analysis.drafts.tuning import Advice
    from analysis.verdicts.methods import Ranking

_OPTIONS = (
    click.option(
        "--by", default="output_throughput", show_default=True, metavar="METRIC[:STATISTIC]",
        help="What is best, e.g. itl:p95 or request_latency:p50.",
    ),
    click.option("--slo", help="Only K that meet it, e.g. 'ttft:p95<200ms; itl:p99<10ms'."),
    click.option(
        "--tie", type=click.FloatRange(min=0), default=0.02, show_default=True,
        help="Differences up to this share are a tie; the smaller K is taken.",
    ),
    click.option(
        "--hysteresis", type=click.FloatRange(min=0), default=0.02, show_default=True,
        help="What a change of K between two loads has to gain.",
    ),
)  # fmt: skip


def _tune_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@warehouse_option
@filter_options
@_tune_options
@json_option
def tune(warehouse: Path | None, as_json: bool, **given: Any) -> None:
    """The best K of each load, ready for vllm serve, beside the rules of thumb; methods ranked.

    Example: draftboard tune --dataset code --slo 'itl:p95<10ms'
    """
    found, ranked, goal = _load(warehouse, given)
    if as_json:
        click.echo(json.dumps(_as_json(found, ranked), allow_nan=False))
    elif not found:
        click.echo("No speculative cell matches. `draftboard runs` lists what there is.")
    else:
        _show(found)
        _show_rankings(ranked, goal)


def _load(
    warehouse: Path | None, given: Mapping[str, Any]
) -> "tuple[list[Advice], list[Ranking], Goal]":
    from analysis.drafts.tuning import Inputs, advice
    from analysis.verdicts.methods import rankings
    from commands.measured import read_measured

    goal = _goal(given)
    bounds = goal.slo.bounds if goal.slo is not None else ()
    metrics = [goal.metric, *(bound.metric for bound in bounds)]
    statistics = [goal.statistic, *(bound.statistic for bound in bounds)]
    read = read_measured(warehouse, filters_from(dict(given)), metrics, statistics)
    inputs = Inputs(read.cells, read.measurements, read.acceptance, read.positions)
    found = advice(inputs, goal, given["hysteresis"])
    return found, rankings(read.cells, read.measurements, goal), goal


def _goal(given: Mapping[str, Any]) -> "Goal":
    from analysis.drafts.best_k import Goal
    from analysis.service.slo import parse
    from warehouse.catalogue import METRICS, STATISTICS
    from warehouse.errors import UnknownKey

    metric, _, statistic = given["by"].partition(":")
    statistic = statistic or "mean"
    if metric not in METRICS:
        known = ", ".join(key for key, m in METRICS.items() if m.better != "neither")
        raise UnknownKey(f"--by: there is no metric {metric!r}; use one of {known}.")
    if statistic not in STATISTICS or (statistic != "mean" and not METRICS[metric].distribution):
        known = ", ".join(STATISTICS) if METRICS[metric].distribution else "mean alone"
        raise UnknownKey(f"--by: {metric} has no {statistic!r}; use {known}.")
    slo = None if given["slo"] is None else parse(given["slo"])
    return Goal(metric, statistic, slo, given["tie"])


def _as_json(found: "list[Advice]", ranked: "list[Ranking]") -> dict[str, Any]:
    from analysis.drafts.tuning_tables import as_json, ranking_json

    return {
        "tables": [as_json(advice) for advice in found],
        "rankings": [ranking_json(ranking) for ranking in ranked],
    }


def _show(found: "list[Advice]") -> None:
    from analysis.drafts import tuning_tables
    from analysis.prediction.forecast_tables import title
    from commands.output import show_table

    for advice in found:
        click.echo(title(advice.about))
        show_table(*tuning_tables.by_load(advice), title=tuning_tables.measured(advice))
        click.echo()
        _show_table_of_k(advice)
        show_table(*tuning_tables.acceptance(advice), title="Acceptance")
        click.echo()
        if advice.rules:
            show_table(*tuning_tables.rules(advice), title="Rules of thumb: the measurement wins")
            click.echo()


def _show_table_of_k(advice: "Advice") -> None:
    if advice.table is not None:
        entries = [list(entry) for entry in advice.table.entries]
        click.echo(f"num_speculative_tokens_per_batch_size: {json.dumps(entries)}")
    if advice.table is not None and advice.config is None:
        click.echo("Drafting does not pay at any measured load: serve without it.")
    if advice.config is not None:
        click.echo(f"--speculative-config {shlex.quote(json.dumps(advice.config))}")
    if advice.serve is not None:
        click.echo(advice.serve)
    for note in advice.notes:
        click.echo(note)
    click.echo()


def _show_rankings(ranked: "list[Ranking]", goal: "Goal") -> None:
    from analysis.drafts.tuning_tables import ranking
    from analysis.tables import metric_name
    from commands.output import show_table

    for found in ranked:
        title = f"Arms on {found.dataset}, {metric_name(goal.metric, goal.statistic)}"
        show_table(*ranking(found, goal.metric), title=title)
        click.echo()
