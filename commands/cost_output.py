"""The answer of ``draftboard cost`` as tables and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from analysis.money.break_even import Pays
from analysis.money.worth import Terms, Worth
from analysis.money.worth_tables import costs, demands, k_lines, lines, pays_table
from commands.output import show_table
from commands.power import Key

ARMS = ("baseline", "speculative")


@dataclass(frozen=True)
class Answer:
    """``rows``: what each arm is worth; ``pays``: at which load and K speculation pays;
    ``energies``: joules per output token, where power was recorded; ``errors``: by setting and
    arm, what makes its pairs doubtful beyond use."""

    terms: Terms
    rows: Sequence[Worth]
    pays: Sequence[Pays]
    energies: Mapping[Key, float | None]
    errors: Mapping[tuple[int, int], Sequence[str]]


def as_json(answer: Answer) -> dict[str, Any]:
    """``{"operating_point", "rows": [...]}``: plain values."""
    return {
        "operating_point": answer.terms.rule.text,
        "rows": [
            {
                **row.as_json(),
                "energy": {
                    f"{arm}_joules_per_output_token": answer.energies.get(
                        (row.setting, row.arm_id, arm)
                    )
                    for arm in ARMS
                },
                "errors": list(answer.errors.get((row.setting, row.arm_id), ())),
                "pays_at": [p.as_json() for p in answer.pays if p.of == (row.setting, row.arm_id)],
            }
            for row in answer.rows
        ],
    }


def show(answer: Answer) -> None:
    """Print the tables, the bases, and what cannot be said."""
    rule, demand = answer.terms.rule, answer.terms.demand
    show_table(*costs(answer.rows), title=f"USD per million output tokens, each arm {rule.text}")
    if demand is not None:
        click.echo()
        title = f"{demand.tokens_per_day:,.0f} output tokens a day"
        show_table(*demands(answer.rows), title=title)
    click.echo()
    for line in lines(answer.rows):
        click.echo(line)
    if answer.pays:
        click.echo()
        title = "From which acceptance length speculation pays"
        show_table(*pays_table(answer.pays), title=title)
        for line in k_lines(answer.pays):
            click.echo(line)
    for line in _energy_lines(answer):
        click.echo(line)
    for line in dict.fromkeys(line for lines_of in answer.errors.values() for line in lines_of):
        click.echo(line)


def _energy_lines(answer: Answer) -> list[str]:
    told = []
    for row in answer.rows:
        values = [answer.energies.get((row.setting, row.arm_id, arm)) for arm in ARMS]
        known = [f"{value:.3g} J" if value is not None else "unknown" for value in values]
        if values != [None, None]:
            told.append(
                f"Energy per output token, {row.about['arm_label']} on {row.about['dataset']}: "
                f"{known[0]} → {known[1]}."
            )
    return told or ["Energy: no power was recorded."]
