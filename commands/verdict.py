"""``draftboard verdict``: one paragraph a manager can read, and what it stands on."""

import shlex
from datetime import UTC, datetime
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
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from answers.decide.accepted import Outputs
    from answers.decide.overview import Overview
    from answers.decide.values import Decision, Decisions
    from warehouse.store import Reader

_WIDTH = 80


@click.command()
@warehouse_option
@filter_options
@question_options
@click.option(
    "--all", "everything", is_flag=True, help="Every load and arm, doubts, flags to paste."
)
@click.option("--record", is_flag=True, help="Keep this as what was decided last.")
@json_option
def verdict(
    warehouse: Path | None, everything: bool, record: bool, as_json: bool, **given: Any
) -> None:
    """Say whether to serve with speculative decoding, with which arm, at which loads, and why.

    Example: draftboard verdict --model openai/gpt-oss-120b --load 16 --mix code=0.7,prose=0.3
    """
    from answers.decide.accepted import changes
    from answers.decide.answer import decide
    from warehouse.annotations import last_decisions
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    root = warehouse_path(warehouse)
    with Reader(root) as reader:
        found = decide(reader, question_from(given))
        told = changes(found.decisions, last_decisions(root))
        if as_json:
            _print_json(found, told)
        else:
            _show(reader, found, told, everything)
    if record:
        _record(root, found)


def _print_json(found: "Decisions", told: "Sequence[str]") -> None:
    from answers.decide.values import as_json

    click.echo(json_text(as_json(found) | {"changed": list(told)}))


def _record(root: Path, found: "Decisions") -> None:
    from answers.decide.accepted import recorded
    from warehouse.annotations import record_decisions

    record_decisions(root, recorded(found.decisions, datetime.now(UTC)))


def _show(reader: "Reader", found: "Decisions", told: "Sequence[str]", everything: bool) -> None:
    from answers.decide.overview import overviews

    if found.why_none is not None:
        click.echo(found.why_none)
    for place, overview in enumerate(overviews(found.decisions)):
        _show_overview(overview, whole=everything or not place)
        if everything:
            for one in overview.decisions:
                _show_all(one, _outputs(reader, one))
    for sentence in told:
        click.echo(click.wrap_text(f"Changed: {sentence}", _WIDTH))


def _outputs(reader: "Reader", one: "Decision") -> "Outputs | None":
    from answers.decide.accepted import outputs

    return outputs(reader, one)


def _show_overview(overview: "Overview", whole: bool) -> None:
    """Print what is decided on a subject; of all but the first the headline alone, unless
    ``whole``."""
    from answers.decide import tables
    from commands.output import show_table

    click.echo(click.style(overview.name, bold=True))
    click.echo(click.wrap_text(overview.paragraph if whole else overview.headline, _WIDTH))
    if whole:
        click.echo()
    show_table(*tables.summary(overview.decisions), narrow=True)
    click.echo()


def _show_all(one: "Decision", same: "Outputs | None") -> None:
    from answers.decide import tables
    from answers.decide.words import title
    from commands.output import show_table

    click.echo(click.style(title(one), bold=True))
    click.echo(click.wrap_text(one.paragraph, _WIDTH))
    show_table(*tables.by_load(one), title="By load")
    show_table(*tables.by_arm(one), title="Every arm; the gains are those expected")
    _listed("Against it", (loss.sentence for loss in one.against))
    _listed("To keep in mind", tables.doubts(one))
    _listed("The same answers?", () if same is None else same.sentences)
    _listed("Decides nothing", tables.left_out(one))
    show_flags(one)
    click.echo()


def _listed(title: str, sentences: "Iterable[str]") -> None:
    told = list(sentences)
    if told:
        click.echo(f"{title}:")
    for sentence in told:
        click.echo(click.wrap_text(sentence, _WIDTH, "  - ", "    "))


def show_flags(one: "Decision") -> None:
    """Print what to paste: the table of K, the value of the option, the whole line."""
    from answers.decide.tables import entries, nothing_to_paste

    table = entries(one)
    if table is not None:
        click.echo(table)
    if one.config is None and one.serve is None:
        click.echo(nothing_to_paste(one))
    if one.config is not None:
        click.echo(f"--speculative-config {shlex.quote(one.config)}")
    if one.serve is not None:
        click.echo(one.serve)
