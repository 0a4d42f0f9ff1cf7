"""``draftboard compare``: matched pairs load by load, how sure each difference is, who has no partner."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import (
    allow_option,
    filter_options,
    filters_from,
    json_option,
    warehouse_option,
)
from commands.output import show_table
from warehouse.catalogue import line_of
from warehouse.errors import UnknownKey
from warehouse.json_text import json_text
from warehouse.store_cache import warehouse_path

if TYPE_CHECKING:
    from answers.compare.values import ArmComparison, ComparedArm, ComparedSetting


@click.command()
@warehouse_option
@filter_options
@allow_option
@click.option(
    "--metric", "metrics", multiple=True, metavar="METRIC[:STATISTIC]",
    help="Show it too, e.g. request_throughput or ttft:p99; repeatable.",
)  # fmt: skip
@click.option(
    "--reference", metavar="ARM", default="baseline", show_default=True,
    help="The arm that the others are compared with, e.g. 'baseline, equal engine'.",
)  # fmt: skip
@json_option
def compare(
    warehouse: Path | None, allow: tuple[str, ...], metrics: tuple[str, ...], as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Compare baseline with speculative cells that are equal in everything else.

    Intervals stand on the whole study, whatever is filtered.

    Example: draftboard compare --dataset code --allow engine_version --metric ttft:p99
    """
    from answers.compare.answer import compare as compared
    from answers.compare.values import CompareQuestion
    from answers.compare.values import as_json as comparison_json
    from warehouse.store import Reader

    also = tuple(line_of(text) for text in metrics)
    question = CompareQuestion(filters_from(given), allow, given["reference"], also)
    with Reader(warehouse_path(warehouse)) as reader:
        found = compared(reader, question)
    if found.why_none is not None and not (found.unmatched or found.excluded):
        raise UnknownKey(found.why_none)
    if as_json:
        click.echo(json_text(comparison_json(found)))
    else:
        from answers.compare import values

        for setting in found.settings:
            for arm in setting.arms:
                _show_arm(found, setting, arm)
        if not found.settings:
            click.echo("No pair matches.")
        if found.unmatched:
            show_table(values.UNMATCHED_HEADER, values.unmatched_rows(found), title="Not compared")
        for cell in found.excluded:
            click.echo(f"decides nothing: {cell.cell}: {cell.why}")


def _show_arm(found: "ArmComparison", setting: "ComparedSetting", arm: "ComparedArm") -> None:
    from answers.compare import values

    click.echo(values.title(setting, arm, found.reference))
    show_table(values.LEVEL_HEADER, [values.level_row(change) for change in arm.changes])
    click.echo(values.summary(arm))
    click.echo()
    if arm.means:
        show_table(values.MEAN_HEADER, [values.mean_row(mean) for mean in arm.means])
        click.echo(values.means_over(arm))
    for name in arm.allowed:
        click.echo(f"allowed to differ: {name}")
    for line in values.doubts(arm):
        click.echo(line)
    click.echo()
