"""``draftboard verdict``: one paragraph a manager can read, and the evidence under it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.compare import confidence_of, load
from commands.options import (
    allow_option,
    filter_options,
    filters_from,
    json_option,
    warehouse_option,
)

if TYPE_CHECKING:
    import pandas as pd

    from analysis.significance.comparison import Comparison
    from analysis.significance.output_check import OutputCheck
    from analysis.verdicts.decision import Decision


@click.command()
@warehouse_option
@filter_options
@allow_option
@json_option
def verdict(warehouse: Path | None, allow: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Say whether to serve with speculative decoding, up to which load, and why.

    Example: draftboard verdict --model openai/gpt-oss-120b --dataset ShareGPT
    """
    from analysis.verdicts.decision import as_json as as_json_object
    from analysis.verdicts.decision import decisions

    cells, found = load(warehouse, filters_from(given), allow)
    outputs = _outputs(warehouse, found, cells)
    made = decisions(found, confidence_of(warehouse, found), outputs)
    if as_json:
        told = [as_json_object(one) for one in made]
        click.echo(json.dumps({"decisions": told}, allow_nan=False))
    elif not made:
        click.echo("No pair of cells matches; `draftboard compare` says why.")
    else:
        for one in made:
            _show(one)


def _show(one: "Decision") -> None:
    click.echo(click.style(one.name, bold=True))
    click.echo(click.wrap_text(one.paragraph, width=100))
    click.echo("Evidence:")
    for sentence in one.evidence:
        click.echo(click.wrap_text(sentence, 100, "  - ", "    "))
    click.echo()


def _outputs(
    warehouse: Path | None, found: "Comparison", cells: "pd.DataFrame"
) -> "dict[tuple[int, int], OutputCheck]":
    """The outputs of each setting and arm, over all its pairs."""
    import pandas as pd

    from analysis.significance.output_check import COLUMNS, check_outputs
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    pairs = found.pairs.drop_duplicates("speculative_id")
    with Reader(warehouse_path(warehouse)) as reader:

        def requests(ids: "pd.Series") -> "pd.DataFrame":
            parts: list[pd.DataFrame] = [
                queries.requests(reader, cell, COLUMNS).to_pandas().assign(pair=place)
                for place, cell in enumerate(ids)
            ]
            return pd.concat(parts)

        return {
            (rows["setting"].iloc[0], rows["arm_id"].iloc[0]): check_outputs(
                requests(rows["baseline_id"]),
                requests(rows["speculative_id"]),
                _greedy(cells, [*rows["baseline_id"], *rows["speculative_id"]]),
            )
            for _, rows in pairs.groupby(["setting", "arm_id"])
        }


def _greedy(cells: "pd.DataFrame", ids: list[str]) -> bool | None:
    """Whether every cell ran at temperature 0; None where one does not say."""
    told = cells.set_index("cell_id").loc[ids, "temperature"]
    return None if told.isna().any() else bool((told == 0).all())
