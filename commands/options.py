"""Options that several commands share, those of a decision among them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import DraftboardError, InvalidInput
from warehouse.filters import FILTER_FIELDS, Filters

if TYPE_CHECKING:
    from answers.decide.values import Question

Command = Callable[..., Any]


def warehouse_option(command: Command) -> Command:
    """Add the option ``--warehouse PATH``; without it DRAFTBOARD_WAREHOUSE, else data/warehouse.

    The command ends with a sentence on stderr where its answer left out runs that are excluded.
    """
    return _warehouse(command, _tell_excluded_at_the_end)


def whole_warehouse_option(command: Command) -> Command:
    """Add ``--warehouse PATH`` to a command that shows, or writes of, the excluded runs themselves:
    nothing is said of them at its end."""
    return _warehouse(command, None)


def _warehouse(command: Command, callback: Callable[..., Any] | None) -> Command:
    return click.option(
        "--warehouse",
        type=click.Path(path_type=Path),
        callback=callback,
        help="Folder of the warehouse [DRAFTBOARD_WAREHOUSE, else data/warehouse].",
    )(command)


def _tell_excluded_at_the_end(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
    ctx.call_on_close(lambda: _tell_excluded(ctx.params))
    return value


def _tell_excluded(given: dict[str, Any]) -> None:
    from warehouse import annotations
    from warehouse.store_cache import warehouse_path

    root = warehouse_path(given.get("warehouse"))
    # Whatever is wrong with the warehouse, the command itself has said it.
    with suppress(DraftboardError):
        if annotations.excluded_runs(root):
            from warehouse.queries import exclusions_sentence, left_out

            whole = set(FILTER_FIELDS) <= set(given)
            filters = filters_from(given) if whole else Filters()
            sentence = exclusions_sentence(left_out(root, filters))
            if sentence:
                click.echo(sentence, err=True)


def json_option(command: Command) -> Command:
    """Add the option ``--json``, which prints the same answer as one JSON object."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def allow_option(command: Command) -> Command:
    """Add the option ``--allow FIELD``, which lets pairs differ in a field."""
    return click.option(
        "--allow",
        multiple=True,
        metavar="FIELD",
        help="Let pairs differ in this field, e.g. engine_version, or in one server argument, e.g. "
        "server_args.max-num-seqs; they stay marked. Repeatable.",
    )(command)


def judging_options(command: Command) -> Command:
    """Add the options of a judgement over nights: ``--max-regression``, ``--since``,
    ``--open-exit``."""
    for option in (
        click.option(
            "--open-exit",
            type=click.IntRange(0, 2),
            default=2,
            show_default=True,
            help="Exit status where the evidence is not enough.",
        ),
        click.option(
            "--since",
            type=click.DateTime(["%Y-%m-%d"]),
            metavar="YYYY-MM-DD",
            help="Only nights from this day on (UTC).",
        ),
        click.option(
            "--max-regression",
            multiple=True,
            metavar="[METRIC=]SIZE",
            help="How much worse is still fine, e.g. itl=3%, ttft.p95=10% or 5% for all [5%]. "
            "Repeatable.",
        ),
    ):
        command = option(command)
    return command


def filter_options(command: Command) -> Command:
    """Add one repeatable option for each filter field; ``unknown`` matches what was not
    recorded."""
    for name in reversed(FILTER_FIELDS):
        command = click.option(
            f"--{name.replace('_', '-')}",
            name,
            multiple=True,
            metavar="VALUE",
            help=f"Only this {name.replace('_', ' ')}; repeatable.",
        )(command)
    return command


def filters_from(given: dict[str, Any]) -> Filters:
    """Return the filters among a command's parameters, e.g. ``{"dataset": ("code",), …}``."""
    chosen: dict[str, Any] = {name: tuple(given[name]) for name in FILTER_FIELDS}
    return Filters(**chosen)


# --- What a decision is asked for, as the options of every command that shows one.


_OPTIONS = (
    click.option(
        "--load", metavar="LOAD",
        help="Your load: 16 (requests at once), 16/s, or the shares of your output tokens over "
        "several, 1=0.2,8=0.5,64=0.3 [the largest measured].",
    ),
    click.option("--slo", help="Only arms that meet it, e.g. 'ttft:p95<200ms; itl:p99<10ms'."),
    click.option(
        "--objective", type=click.Choice(["throughput", "latency", "cost"]), default="throughput",
        show_default=True, help="What the choice is for.",
    ),
    click.option(
        "--mix", metavar="DATASET=SHARE,…",
        help="Your traffic, e.g. code=0.7,prose=0.3 [all datasets alike].",
    ),
    click.option(
        "--nowhere-worse", metavar="SIZE",
        help="A yes allows no interval to reach further below zero than this, e.g. 3%.",
    ),
)  # fmt: skip


def question_options(command: Command) -> Command:
    """Add the options ``--load``, ``--slo``, ``--objective``, ``--mix``, ``--nowhere-worse`` and
    ``--allow``."""
    command = allow_option(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def question_from(given: dict[str, Any]) -> "Question":
    """Return the question that a command's parameters ask. Raises InvalidInput for a mix that is
    none."""
    from answers.decide.values import Question, mix_from

    return Question(
        filters=filters_from(given), objective=given["objective"], load=given["load"],
        slo=given["slo"], mix=mix_from(given["mix"]), allow=tuple(given["allow"]),
        nowhere_worse=_share(given["nowhere_worse"]),
    )  # fmt: skip


def _share(text: str | None) -> float | None:
    """Read a share: ``3%`` as 0.03; None for none."""
    if text is None:
        return None
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InvalidInput(f"--nowhere-worse: {text!r} is no size; write one like 3%.")
    return share
