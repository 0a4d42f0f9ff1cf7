"""``draftboard plan``: what a study will run, before anything runs, which needs no GPU and no vLLM; ``doctor``: what
keeps it from running on this machine, and how to mend it."""

import os
import shlex
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from commands.terminal import Table, show, show_json
from runners.checks.doctor import examine
from runners.executors.local import fitting
from runners.measuring.guidellm import planned_command
from runners.measuring.resume import Now, unlike
from runners.planning.estimate import (
    Assumed,
    Node,
    PlanEstimate,
    assumed_here,
    estimate,
    priced_node,
    read_recorded,
)
from runners.planning.plan import Launch, Plan, doubts, make_plan, refusals
from runners.planning.study_file import read_study
from runners.serving.engines import PORT, engine_of, software, tool
from runners.surroundings.layout import REPORT, Layout, records_under
from runners.surroundings.machine import Survey, survey, visible
from runners.texts.prompts import few_prompts, sessions_of
from warehouse.errors import RunnerError

#: A run takes any free port.
_PORT = "8000"
Written = list[tuple[str, list[str]]]


def written_out(plan: Plan, results: Path) -> Written:
    """Return the command line of each launch's server, then of the load of each of its cells, each
    with what it is for."""
    layout = Layout(results, plan.study.name)
    url = f"http://127.0.0.1:{_PORT}"
    written: Written = []
    for launch in plan.launches:
        written.append((f"{launch.launch_id}: the server", server_by_hand(plan, launch)))
        for cell in launch.cells:
            prompts = layout.prompts(cell.dataset, cell.load)
            report = layout.cell(cell.key) / REPORT
            load = planned_command(plan.study, cell, url, str(prompts), str(report))
            written.append((f"{launch.launch_id}: the load of {cell.key}", load))
    return written


def server_by_hand(plan: Plan, launch: Launch) -> list[str]:
    """Return the command line of a launch's server."""
    words = engine_of(plan.study).command(plan.study, launch.variant, launch.tensor_parallel_size)
    return [word.replace(PORT, _PORT) for word in words]


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
    help="Assumed at every load where nothing was recorded; else by what the GPU's memory yields, or 7 s.",
)
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    help="At most so many servers side by side, as for `draftboard run`; 1: one after the other.",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    help="GPUs of the node; else those of the instance in the study's price, else those here.",
)
@click.option("--commands", is_flag=True, help="Print every command line, ready to be run by hand.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def plan(study: Path, results: Path | None, commands: bool, as_json: bool, **given: Any) -> None:
    """Show the cells, server launches, command lines, time and cost of a study.

    Example: draftboard plan studies/gpt-oss-120b-eagle3.yaml
    """
    each = given["seconds_per_request"]
    assumed = Assumed(each, words=f"{each:g} s a request") if each else Assumed()
    laid_out, costs, found = planned(study, results, assumed, given["gpus"], given["parallel"])
    written = written_out(laid_out, results or Path("results"))
    refused = refusals(laid_out, tool(laid_out.study, "guidellm").version)
    sessions, warnings = sessions_of(laid_out), [*few_prompts(laid_out), *doubts(laid_out)]
    if as_json:
        show_json({
            "study": laid_out.study.name,
            "cells": len(laid_out.cells),
            "server_launches": len(laid_out.launches),
            "attempts": laid_out.study.limits.retries + 1,
            "side_by_side_now": fitting(laid_out.study, laid_out.launches, found, os.environ),
            "launches": [
                {
                    "id": launch.launch_id,
                    "arm": launch.variant.name,
                    "tensor_parallel_size": launch.tensor_parallel_size,
                    "repeat": launch.repeat,
                    "command": server_by_hand(laid_out, launch),
                    "cells": [cell.key for cell in launch.cells],
                }
                for launch in laid_out.launches
            ],
            "commands": [shlex.join(words) for _, words in written],
            "sessions": sessions,
            "estimate": asdict(costs),
            "warnings": warnings,
            "refusals": refused,
            "unlike": measured_otherwise(laid_out, results),
        })  # fmt: skip
        return
    header = ("launch", "arm", "TP", "datasets", "loads", "cells")
    show(
        Table(header, [_row(launch) for launch in laid_out.launches]),
        "",
        f"{len(laid_out.cells)} cells on {len(laid_out.launches)} server launches",
        *sessions,
        *_in_words(costs),
        *(f"warning: {warning}" for warning in warnings),
        *(f"will not run: {sentence}" for sentence in refused),
        *(f"\n# {label}\n{shlex.join(words)}" for label, words in (written if commands else ())),
    )


def planned(
    study: Path,
    results: Path | None = None,
    assumed: Assumed | None = None,
    gpus: int | None = None,
    servers: int | None = None,
) -> tuple[Plan, PlanEstimate, Survey]:
    """Return the plan of a study, what it costs, and the GPUs that are here. ``gpus``, ``servers``: of
    the node, and how many of them side by side; else as the study's price and this machine say."""
    laid_out = make_plan(read_study(study), results or Path("results"))
    found = survey()
    if (servers or 1) > 1 and laid_out.study.cpus is not None:
        raise RunnerError(
            f"The study {laid_out.study.name} pins its servers to the same cores, so they cannot run side "
            "by side; leave --parallel out."
        )
    here = len(visible(found, os.environ)) or None
    node = Node(gpus or priced_node(laid_out.study).gpus or here, servers)
    recorded = read_recorded(records_under(results) if results else ())
    assumed = assumed_here(laid_out, found, assumed or Assumed())
    return laid_out, estimate(laid_out, recorded, assumed, node), found


def measured_otherwise(laid_out: Plan, results: Path | None) -> tuple[str, ...]:
    """Return in what earlier results differ from what this study would measure now."""
    if results is None:
        return ()
    return unlike(laid_out, Layout(results, laid_out.study.name), Now(software(laid_out.study)))


def _row(launch: Launch) -> tuple[str, ...]:
    loads = [
        cell.load if cell.concurrency is None else str(cell.concurrency) for cell in launch.cells
    ]
    return (
        launch.launch_id,
        launch.variant.name,
        str(launch.tensor_parallel_size),
        ", ".join(dict.fromkeys(cell.dataset for cell in launch.cells)),
        ", ".join(dict.fromkeys(loads)),
        str(len(launch.cells)),
    )


def _in_words(costs: PlanEstimate) -> list[str]:
    gpu_hours = f", {costs.gpu_hours:.1f} GPU-hours" if costs.gpu_hours else ""
    money = "no price in the study"
    if costs.usd is not None:
        money = f"{costs.usd:,.0f} USD ({costs.usd_basis})"
    disk = f"disk for the results: about {costs.disk_bytes / 1e6:,.0f} MB"
    if costs.side_by_side == 1:
        return [f"about {costs.hours:.1f} h{gpu_hours} ({costs.how})", f"cost: {money}", disk]
    gpus = "" if costs.gpus is None else f" on {costs.gpus} GPUs"
    beside = f"{gpus} with up to {costs.side_by_side} servers side by side"
    alone = f"{costs.sequential_hours:.1f} h"
    if costs.sequential_usd is not None:
        alone += f" and {costs.sequential_usd:,.0f} USD"
    if costs.idle_share is not None:
        alone += f", and {costs.idle_share:.0%} of the {costs.gpus} GPUs' time idle"
    return [
        f"about {costs.hours:.1f} h{beside}{gpu_hours} ({costs.how})",
        f"cost: {money}",
        f"one after the other (--parallel 1): {alone}; the servers then do not disturb each other",
        disk,
    ]


# --- ``draftboard doctor``: what keeps a study from running on this machine, and how to mend it.


@click.command()
@click.argument("study", required=False, type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Where the results will go.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def doctor(ctx: click.Context, study: Path | None, results: Path, as_json: bool) -> None:
    """Check whether STUDY can run here; without a study, what this machine has.

    Looks at executables, GPUs, speculative methods, memory, tokenizers, datasets, ports and disk.
    Starts no server and downloads no weights. Exit status: 1 if something keeps the study from
    running, else 0.

    Example: draftboard doctor studies/gpt-oss-120b-eagle3.yaml
    """
    asked = None if study is None else read_study(study)
    if not as_json:
        show("Asking vLLM, which takes some seconds …", err=True)
    situation, findings = examine(asked, results)
    counts = Counter(finding.status for finding in findings)
    if as_json:
        told = {
            "study": None if situation.plan is None else situation.plan.study.name,
            "blockers": counts["blocker"],
            "warnings": counts["warning"],
            "unknown": counts["unknown"],
            "findings": [asdict(finding) for finding in findings],
            "vllm": situation.vllm.version,
            "guidellm": situation.guidellm.version,
            "driver": situation.survey.driver,
            "gpus": [asdict(each) for each in situation.gpus],
        }
        show_json(told)
    else:
        rows = [
            (
                f.status,
                f.check,
                f.said if f.status == "ok" or f.fix is None else f"{f.said}\n→ {f.fix}",
            )
            for f in findings
        ]
        words = [f"{counts[s]} {s}{'s' if counts[s] > 1 and s != 'unknown' else ''}"
                 for s in ("blocker", "warning", "unknown") if counts[s]]  # fmt: skip
        said = ", ".join(words) or "all is well"
        then = "Mend the blockers first." if counts["blocker"] else "Nothing keeps it from running."
        show(
            Table(("status", "check", "what was found, and how to mend it"), rows),
            "",
            f"{said[:1].upper()}{said[1:]}. {then}",
        )
    ctx.exit(1 if counts["blocker"] else 0)
