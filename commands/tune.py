"""``draftboard tune``: which K at which load, as vLLM takes it, and why."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import (
    filter_options,
    json_option,
    question_from,
    question_options,
    warehouse_option,
)
from commands.verdict import show_flags
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from answers.decide.accepted import Accepted
    from answers.decide.values import Decision, Decisions

_WIDTH = 80


@click.command()
@warehouse_option
@filter_options
@question_options
@json_option
def tune(warehouse: Path | None, as_json: bool, **given: Any) -> None:
    """The K to draft at each load, ready for vllm serve, with acceptance and rules of thumb.

    It is the decision that `draftboard verdict` tells.

    Example: draftboard tune --dataset code --slo 'itl:p95<10ms'
    """
    from answers.decide.accepted import accepted
    from answers.decide.answer import decide
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    question = question_from(given)
    with Reader(warehouse_path(warehouse)) as reader:
        found = decide(reader, question)
        drafts = accepted(reader, question.filters)
    if as_json:
        click.echo(json_text(_as_json(found, drafts)))
    elif found.why_none is not None:
        click.echo(found.why_none)
    for one in () if as_json else found.decisions:
        _show(one, drafts)


def _as_json(found: "Decisions", drafts: "Sequence[Accepted]") -> dict[str, Any]:
    from answers.decide.accepted import accepted_in, rules
    from answers.decide.values import as_json, decision_json

    told = [
        decision_json(one)
        | {
            "acceptance": [
                (
                    {name: value for name, value in asdict(x).items() if name != "about"}
                    | {"arm": x.arm}
                )
                for x in accepted_in(one, drafts)
            ],
            "rules": [] if one.traffic.mix else [asdict(rule) for rule in rules(one, drafts)],
        }
        for one in found.decisions
    ]
    return as_json(found) | {"decisions": told}


def _show(one: "Decision", drafts: "Sequence[Accepted]") -> None:
    from answers.decide import tables
    from answers.decide.accepted import acceptance_rows, accepted_in, rule_rows, rules
    from answers.decide.words import title
    from commands.output import show_table

    click.echo(click.style(title(one), bold=True))
    click.echo(click.wrap_text(one.headline, _WIDTH))
    show_table(*tables.by_load(one), title="What to draft")
    click.echo()
    show_flags(one)
    for note in tables.table_notes(one):
        click.echo(click.wrap_text(note, _WIDTH))
    click.echo(f"At stake in the choice: {tables.at_stake(one)}.")
    click.echo()
    if one.traffic.mix:  # Each of its datasets tells its own drafts.
        return
    show_table(*tables.by_arm(one), title="Every arm; the gains are those expected")
    for rows, about in (
        (acceptance_rows(accepted_in(one, drafts)), "Acceptance"),
        (rule_rows(rules(one, drafts)), "Rules of thumb: the measurement wins"),
    ):
        if rows[1]:
            click.echo()
            show_table(*rows, title=about)
    click.echo()
