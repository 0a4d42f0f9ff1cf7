"""``draftboard verdict``, ``tune`` and ``compare``: what is decided, as a manager reads it and as vLLM takes it, and
the matched pairs behind it."""

import shlex
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.terminal import (
    Table,
    allow_option,
    filter_options,
    filters_from,
    json_option,
    question_from,
    question_options,
    reading,
    show,
    show_json,
    warehouse_option,
)
from warehouse.catalogue import line_of
from warehouse.errors import UnknownKey
from warehouse.storage.cache import warehouse_path

if TYPE_CHECKING:
    from answers.compare.kinds import By
    from answers.compare.values import CompareQuestion
    from answers.decide.values import DecideQuestion, Decision, Decisions
    from warehouse.store import Reader

_WIDTH = 80
_ARMS = "Every arm; the gains are those expected"


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
    from answers.decide import tables, values, words
    from answers.decide.overview import overviews

    with reading(warehouse) as reader:
        found, changed = decided(reader, question_from(given))
        if as_json:
            show_json(values.decisions_json(found) | {"changed": changed})
        else:
            show(found.why_none)
            for number, subject in enumerate(overviews(found.decisions)):
                # Of all but the first the headline alone is shown.
                whole = everything or not number
                show(
                    click.style(subject.name, bold=True),
                    click.wrap_text(subject.paragraph if whole else subject.headline, _WIDTH),
                    "" if whole else None,
                    Table(
                        *tables.summary(subject.decisions),
                        narrow=True,
                        spare=("stake", "costs", "95 %"),
                    ),
                    "",
                )
                for decision in subject.decisions if everything else ():
                    same = tables.outputs(reader, decision)
                    show(
                        click.style(words.title(decision), bold=True),
                        click.wrap_text(decision.paragraph, _WIDTH),
                        Table(*tables.by_load(decision), "By load"),
                        Table(*tables.by_arm(decision), _ARMS),
                        *_listed("Against it", (loss.sentence for loss in decision.against)),
                        *_listed("To keep in mind", tables.doubts(decision)),
                        *_listed("The same answers?", () if same is None else same.sentences),
                        *_listed("Decides nothing", tables.left_out(decision)),
                        *_to_paste(decision),
                        "",
                    )
            show(*(click.wrap_text(f"Changed: {sentence}", _WIDTH) for sentence in changed))
    if to_record:
        record(warehouse_path(warehouse), found)


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

    made = recorded(found.decisions, datetime.now(UTC))
    annotations.append_lines(root, annotations.DECISIONS_FILE, *made)


def _listed(heading: str, sentences: Iterable[str]) -> list[str]:
    lines = [click.wrap_text(sentence, _WIDTH, "  - ", "    ") for sentence in sentences]
    return [f"{heading}:", *lines] if lines else []


def _to_paste(decision: "Decision") -> "tuple[str | None, ...]":
    """Return the table of K, the value of the option and the whole line, or why there is none."""
    from answers.decide import tables

    config, serve = decision.config, decision.serve
    return (
        tables.entries(decision),
        tables.nothing_to_paste(decision) if config is None and serve is None else None,
        None if config is None else f"--speculative-config {shlex.quote(config)}",
        serve,
    )


# --- ``draftboard tune``: which K at which load, as vLLM takes it, and why.


@click.command()
@warehouse_option
@filter_options
@question_options
@click.option(
    "--by", type=click.Choice(["context"]),
    help="At each measured length of prompt: which arm pays, and whether one server suffices.",
)  # fmt: skip
@json_option
def tune(warehouse: Path | None, as_json: bool, by: str | None, **given: Any) -> None:
    """The K to draft at each load, ready for vllm serve, with acceptance and rules of thumb.

    It is the decision that `draftboard verdict` tells.

    Example: draftboard tune --dataset code --slo 'itl:p95<10ms'
    """
    from answers.decide import tables, values, words
    from answers.decide.answer import decide
    from answers.predict import acceptance

    question, as_dicts = question_from(given), []
    if by is not None:
        _tune_by_context(warehouse, question, as_json)
        return
    with reading(warehouse) as reader:
        found = decide(reader, question)
        drafts = acceptance.accepted(reader, question.filters)
    if not as_json:
        show(found.why_none)
    for decision in found.decisions:
        own = acceptance.accepted_in(decision, drafts)
        # Of a mix each of its datasets tells its own drafts.
        rules = [] if decision.traffic.mix else list(acceptance.rules(decision, drafts))
        if as_json:
            inner = ("about", "setting", "cells")
            drafted = [{n: x for n, x in asdict(each).items() if n not in inner} for each in own]
            thumb = {"rules": [asdict(rule) for rule in rules]}
            as_dicts.append(values.decision_json(decision) | {"acceptance": drafted} | thumb)
            continue
        show(
            click.style(words.title(decision), bold=True),
            click.wrap_text(decision.headline, _WIDTH),
            Table(*tables.by_load(decision), "What to draft"),
            "",
            *_to_paste(decision),
            *(click.wrap_text(note, _WIDTH) for note in tables.table_notes(decision)),
            f"At stake in the choice: {tables.at_stake(decision)}.",
            "",
        )
        if not decision.traffic.mix:
            rows = Table(*acceptance.acceptance_rows(own), "Acceptance")
            thumbs = Table(*acceptance.rule_rows(rules), "Rules of thumb: the measurement wins")
            beside = (part for table in (rows, thumbs) if table.rows for part in ("", table))
            show(Table(*tables.by_arm(decision), _ARMS), *beside, "")
    if as_json:
        show_json(values.decisions_json(found) | {"decisions": as_dicts})


def _tune_by_context(warehouse: Path | None, question: "DecideQuestion", as_json: bool) -> None:
    from answers.decide import contexts, tables, words

    with reading(warehouse) as reader:
        found = contexts.by_context(reader, question)
    if isinstance(found, str):
        raise UnknownKey(found)
    if as_json:
        show_json(contexts.contexts_json(found))
        return
    for one in found:
        show(
            click.style(words.title(one.one), bold=True),
            click.wrap_text(one.sentence, _WIDTH),
            *(click.wrap_text(reach.sentence, _WIDTH) for reach in one.arms),
            Table(*tables.summary([each.decision for each in one.contexts]), "By length of prompt"),
            Table(*contexts.arm_rows(one), "Every arm"),
            *_listed("To keep in mind", one.doubts),
            "",
        )
    show(click.wrap_text(contexts.HOW, _WIDTH))


# --- ``draftboard compare``: matched pairs load by load, how sure each difference is, who has no partner.


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
@click.option(
    "--by", type=click.Choice(["category", "turn"]),
    help="Of each kind of prompt, or turn of sessions: what was accepted, what it gains, whether one K fits all.",
)  # fmt: skip
@json_option
def compare(
    warehouse: Path | None, allow: tuple[str, ...], metrics: tuple[str, ...], as_json: bool,
    by: "By | None", **given: Any,
) -> None:  # fmt: skip
    """Compare baseline with speculative cells that are equal in everything else.

    Intervals stand on the whole study, whatever is filtered.

    Example: draftboard compare --dataset code --allow engine_version --metric ttft:p99
    """
    from answers.compare import answer
    from answers.compare import values as pairs

    also = tuple(line_of(text) for text in metrics)
    question = pairs.CompareQuestion(filters_from(given), allow, given["reference"], also)
    if by is not None:
        _compare_kinds(warehouse, question, by, as_json)
        return
    with reading(warehouse) as reader:
        found = answer.compare(reader, question)
    if found.why_none is not None and not (found.unmatched or found.excluded):
        raise UnknownKey(found.why_none)
    if as_json:
        show_json(pairs.comparison_json(found))
        return
    for setting, arm in ((each, arm) for each in found.settings for arm in each.arms):
        means = Table(pairs.MEAN_HEADER, [pairs.mean_row(mean) for mean in arm.means])
        show(
            pairs.title(setting, arm, found.reference),
            Table(pairs.LEVEL_HEADER, [pairs.level_row(change) for change in arm.changes]),
            pairs.summary(arm),
            "",
            *((means, pairs.means_over(arm)) if arm.means else ()),
            *(f"allowed to differ: {name}" for name in arm.allowed),
            *pairs.doubts(arm),
            "",
        )
    unmatched = Table(pairs.UNMATCHED_HEADER, pairs.unmatched_rows(found), "Not compared")
    show(
        None if found.settings else "No pair matches.",
        unmatched if found.unmatched else None,
        *(f"decides nothing: {cell.cell}: {cell.why}" for cell in found.excluded),
    )


def _compare_kinds(
    warehouse: Path | None, question: "CompareQuestion", by: "By", as_json: bool
) -> None:
    from answers.compare import kinds

    with reading(warehouse) as reader:
        found = kinds.by_kind(reader, question, by)
    if found.why_none is not None:
        raise UnknownKey(found.why_none)
    if as_json:
        show_json(kinds.kinds_json(found))
        return
    for setting, at in ((each, at) for each in found.settings for at in each.loads):
        show(
            click.style(kinds.kinds_title(setting, at, found), bold=True),
            click.wrap_text(at.one.sentence, _WIDTH),
            Table(kinds.HEADER[by], kinds.kind_rows(at, by)),
            *(click.wrap_text(why, _WIDTH) for why in kinds.reasons(at, by)),
            "",
        )
    show(click.wrap_text(kinds.HOW[by], _WIDTH))
