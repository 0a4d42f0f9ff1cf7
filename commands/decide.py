"""``draftboard verdict`` and ``tune``: what is decided, as a manager reads it and as vLLM takes it."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
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
from commands.output import show_table
from warehouse.json_text import json_text
from warehouse.store_cache import warehouse_path

if TYPE_CHECKING:
    from answers.decide.tables import ComparedOutputs
    from answers.decide.values import DecideQuestion, Decision, Decisions
    from answers.predict.acceptance import DraftAcceptance
    from warehouse.store import Reader

_WIDTH = 80


@click.command()
@warehouse_option
@filter_options
@question_options
@click.option(
    "--all", "everything", is_flag=True, help="Every load and arm, doubts, flags to paste."
)
@click.option("--record", "to_record", is_flag=True, help="Keep this as what was decided last.")
@json_option
def verdict(
    warehouse: Path | None, everything: bool, to_record: bool, as_json: bool, **given: Any
) -> None:
    """Say whether to serve with speculative decoding, with which arm, at which loads, and why.

    Example: draftboard verdict --model openai/gpt-oss-120b --load 16 --mix code=0.7,prose=0.3
    """
    from answers.decide.values import as_json as decisions_json
    from warehouse.store import Reader

    root = warehouse_path(warehouse)
    with Reader(root) as reader:
        found, changed = decided(reader, question_from(given))
        if as_json:
            click.echo(json_text(decisions_json(found) | {"changed": changed}))
        else:
            # Print what is decided on each subject; of all but the first the headline alone,
            # unless `everything`.
            from answers.decide import tables
            from answers.decide.overview import overviews
            from answers.decide.tables import outputs

            if found.why_none is not None:
                click.echo(found.why_none)
            for place, overview in enumerate(overviews(found.decisions)):
                whole = everything or not place
                click.echo(click.style(overview.name, bold=True))
                click.echo(
                    click.wrap_text(overview.paragraph if whole else overview.headline, _WIDTH)
                )
                if whole:
                    click.echo()
                show_table(*tables.summary(overview.decisions), narrow=True)
                click.echo()
                for decision in overview.decisions if everything else ():
                    _show_all(decision, outputs(reader, decision))
            for sentence in changed:
                click.echo(click.wrap_text(f"Changed: {sentence}", _WIDTH))
    if to_record:
        record(root, found)


def decided(reader: "Reader", question: "DecideQuestion") -> "tuple[Decisions, list[str]]":
    """Return what is decided, and what is decided otherwise than it was last recorded."""
    from answers.decide.answer import decide
    from answers.decide.tables import changes
    from warehouse import annotations

    found = decide(reader, question)
    return found, list(changes(found.decisions, annotations.last_decisions(reader.root)))


def record(root: Path, found: "Decisions") -> None:
    """Keep what is decided as what was decided last."""
    from answers.decide.tables import recorded
    from warehouse import annotations

    annotations.record_decisions(root, recorded(found.decisions, datetime.now(UTC)))


def _show_all(decision: "Decision", same: "ComparedOutputs | None") -> None:
    from answers.decide import tables
    from answers.decide.words import title

    click.echo(click.style(title(decision), bold=True))
    click.echo(click.wrap_text(decision.paragraph, _WIDTH))
    show_table(*tables.by_load(decision), title="By load")
    show_table(*tables.by_arm(decision), title="Every arm; the gains are those expected")
    _listed("Against it", (loss.sentence for loss in decision.against))
    _listed("To keep in mind", tables.doubts(decision))
    _listed("The same answers?", () if same is None else same.sentences)
    _listed("Decides nothing", tables.left_out(decision))
    _show_flags(decision)
    click.echo()


def _listed(heading: str, sentences: Iterable[str]) -> None:
    lines = list(sentences)
    if lines:
        click.echo(f"{heading}:")
    for line in lines:
        click.echo(click.wrap_text(line, _WIDTH, "  - ", "    "))


def _show_flags(decision: "Decision") -> None:
    """Print what to paste: the table of K, the value of the option, the whole line."""
    from answers.decide import tables

    table = tables.entries(decision)
    if table is not None:
        click.echo(table)
    if decision.config is None and decision.serve is None:
        click.echo(tables.nothing_to_paste(decision))
    if decision.config is not None:
        click.echo(f"--speculative-config {shlex.quote(decision.config)}")
    if decision.serve is not None:
        click.echo(decision.serve)


# --- ``draftboard tune``: which K at which load, as vLLM takes it, and why.


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
    from answers.decide.answer import decide
    from answers.decide.values import as_json as decisions_json
    from answers.predict.acceptance import accepted
    from warehouse.store import Reader

    question = question_from(given)
    with Reader(warehouse_path(warehouse)) as reader:
        found = decide(reader, question)
        drafts = accepted(reader, question.filters)
    if as_json:
        each = [_tuned_json(decision, drafts) for decision in found.decisions]
        click.echo(json_text(decisions_json(found) | {"decisions": each}))
        return
    if found.why_none is not None:
        click.echo(found.why_none)
    for decision in found.decisions:
        _show_tuned(decision, drafts)


def _tuned_json(decision: "Decision", drafts: "Sequence[DraftAcceptance]") -> dict[str, Any]:
    from answers.decide.values import decision_json
    from answers.predict.acceptance import accepted_in, rules

    acceptance = [
        {name: value for name, value in asdict(draft).items() if name != "about"}
        | {"arm": draft.arm}
        for draft in accepted_in(decision, drafts)
    ]
    thumb = [] if decision.traffic.mix else [asdict(rule) for rule in rules(decision, drafts)]
    return decision_json(decision) | {"acceptance": acceptance, "rules": thumb}


def _show_tuned(decision: "Decision", drafts: "Sequence[DraftAcceptance]") -> None:
    from answers.decide import tables
    from answers.decide.words import title
    from answers.predict.acceptance import acceptance_rows, accepted_in, rule_rows, rules

    click.echo(click.style(title(decision), bold=True))
    click.echo(click.wrap_text(decision.headline, _WIDTH))
    show_table(*tables.by_load(decision), title="What to draft")
    click.echo()
    _show_flags(decision)
    for note in tables.table_notes(decision):
        click.echo(click.wrap_text(note, _WIDTH))
    click.echo(f"At stake in the choice: {tables.at_stake(decision)}.")
    click.echo()
    if decision.traffic.mix:  # Each of its datasets tells its own drafts.
        return
    show_table(*tables.by_arm(decision), title="Every arm; the gains are those expected")
    for rows, about in (
        (acceptance_rows(accepted_in(decision, drafts)), "Acceptance"),
        (rule_rows(rules(decision, drafts)), "Rules of thumb: the measurement wins"),
    ):
        if rows[1]:
            click.echo()
            show_table(*rows, title=about)
    click.echo()
