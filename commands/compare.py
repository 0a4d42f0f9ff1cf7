"""``draftboard compare``: matched pairs load by load, how sure each difference is, who has no partner."""

from pathlib import Path
from typing import Any

import click

from commands.options import (
    allow_option,
    filter_options,
    filters_from,
    json_option,
    reading,
    warehouse_option,
)
from commands.output import Table, show, show_json
from warehouse.catalogue import line_of
from warehouse.errors import UnknownKey


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
    from answers.compare import answer, values

    also = tuple(line_of(text) for text in metrics)
    question = values.CompareQuestion(filters_from(given), allow, given["reference"], also)
    with reading(warehouse) as reader:
        found = answer.compare(reader, question)
    if found.why_none is not None and not (found.unmatched or found.excluded):
        raise UnknownKey(found.why_none)
    if as_json:
        show_json(values.comparison_json(found))
        return
    for setting, arm in ((each, arm) for each in found.settings for arm in each.arms):
        means = Table(values.MEAN_HEADER, [values.mean_row(mean) for mean in arm.means])
        show(
            values.title(setting, arm, found.reference),
            Table(values.LEVEL_HEADER, [values.level_row(change) for change in arm.changes]),
            values.summary(arm),
            "",
            *((means, values.means_over(arm)) if arm.means else ()),
            *(f"allowed to differ: {name}" for name in arm.allowed),
            *values.doubts(arm),
            "",
        )
    unmatched = Table(values.UNMATCHED_HEADER, values.unmatched_rows(found), "Not compared")
    show(
        None if found.settings else "No pair matches.",
        unmatched if found.unmatched else None,
        *(f"decides nothing: {cell.cell}: {cell.why}" for cell in found.excluded),
    )
