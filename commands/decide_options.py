"""What a decision is asked for, as the options of every command that shows one."""

from typing import TYPE_CHECKING, Any

import click

from commands.options import Command, allow_option, filters_from
from warehouse.errors import InvalidInput

if TYPE_CHECKING:
    from answers.decide.values import Question

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
