"""``draftboard plan``: what a study will run, before anything runs. Needs no GPU and no vLLM."""

import json
import shlex
from pathlib import Path
from typing import Any

import click

from commands.output import show_table
from runners.measuring.guidellm import planned_command
from runners.planning.estimate import (
    SECONDS_PER_REQUEST,
    Assumed,
    Estimate,
    estimate,
    read_recorded,
)
from runners.planning.plan import Launch, Plan, make_plan
from runners.planning.study_file import read_study
from runners.planning.vllm_command import server_command
from runners.texts.prompt_checks import few_prompts


@click.command()
@click.argument("study", type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    help="Earlier results, whose durations make the estimate better.",
)
@click.option(
    "--seconds-per-request",
    type=click.FloatRange(min=0.01),
    default=SECONDS_PER_REQUEST,
    show_default=True,
    help="Assumed where nothing was recorded.",
)
@click.option("--commands", is_flag=True, help="Print every command line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def plan(
    study: Path, results: Path | None, seconds_per_request: float, commands: bool, as_json: bool
) -> None:
    """Show the cells, server launches, command lines, time and cost of a study.

    Example: draftboard plan studies/gpt-oss-120b-eagle3.yaml
    """
    laid_out = make_plan(read_study(study))
    costs = estimate(laid_out, read_recorded(results), Assumed(seconds_per_request))
    if as_json:
        click.echo(json.dumps(_as_json(laid_out, costs), allow_nan=False))
        return
    _show(laid_out, costs, seconds_per_request)
    if commands:
        for words in _commands(laid_out):
            click.echo(shlex.join(words))


def _as_json(laid_out: Plan, costs: Estimate) -> dict[str, Any]:
    return {
        "study": laid_out.study.name,
        "cells": len(laid_out.cells),
        "server_launches": len(laid_out.launches),
        "launches": [_launch_json(laid_out, launch) for launch in laid_out.launches],
        "commands": [shlex.join(words) for words in _commands(laid_out)],
        "estimate": costs.as_json(),
        "warnings": few_prompts(laid_out),
    }


def _launch_json(laid_out: Plan, launch: Launch) -> dict[str, Any]:
    return {
        "id": launch.launch_id,
        "arm": launch.variant.name,
        "tensor_parallel_size": launch.tensor_parallel_size,
        "repeat": launch.repeat,
        "command": _server(laid_out, launch),
        "cells": [cell.key for cell in launch.cells],
    }


def _commands(laid_out: Plan) -> list[list[str]]:
    """Each launch's server, then the load of each of its cells."""
    found = []
    for launch in laid_out.launches:
        found.append(_server(laid_out, launch))
        found += [planned_command(laid_out.study, cell) for cell in launch.cells]
    return found


def _server(laid_out: Plan, launch: Launch) -> list[str]:
    return server_command(laid_out.study, launch.variant, launch.tensor_parallel_size)


def _show(laid_out: Plan, costs: Estimate, seconds_per_request: float) -> None:
    show_table(
        ("launch", "arm", "TP", "datasets", "loads", "cells"),
        [_row(launch) for launch in laid_out.launches],
    )
    click.echo()
    click.echo(f"{len(laid_out.cells)} cells on {len(laid_out.launches)} server launches")
    for line in _in_words(costs, seconds_per_request):
        click.echo(line)
    for warning in few_prompts(laid_out):
        click.echo(f"warning: {warning}")


def _row(launch: Launch) -> tuple[str, ...]:
    return (
        launch.launch_id,
        launch.variant.name,
        str(launch.tensor_parallel_size),
        ", ".join(dict.fromkeys(cell.dataset for cell in launch.cells)),
        ", ".join(str(c) for c in sorted({cell.concurrency for cell in launch.cells})),
        str(len(launch.cells)),
    )


def _in_words(costs: Estimate, seconds_per_request: float) -> list[str]:
    how = {
        "recorded": f"from {costs.recorded_cells} recorded cells",
        "partly recorded": f"{costs.recorded_cells} cells from recorded durations, the others assumed",
        "assumed": f"assumed: {seconds_per_request:g} s a request, nothing recorded yet",
    }[costs.basis]
    money = "no price in the study" if costs.usd is None else f"{costs.usd:,.0f} USD"
    return [
        f"about {costs.hours:.1f} h, {costs.gpu_hours:.1f} GPU-hours ({how})",
        f"cost: {money}" + ("" if costs.usd is None else f" ({costs.usd_basis})"),
        f"disk for the results: about {costs.disk_bytes / 1e6:,.0f} MB",
    ]
