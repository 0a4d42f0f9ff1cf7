"""Loads: what the installed GuideLLM cannot send, what does not fit into the limits."""

from collections.abc import Iterator
from typing import Literal

from runners.checks.finding import Finding, Situation
from runners.texts.loads import doubts, refusals

CHECK = "loads"


def check(situation: Situation) -> Iterator[Finding]:
    """Yield each load that cannot be run, then each that says less than it seems to."""
    plan = situation.plan
    if plan is None:
        return
    for sentence in refusals(plan, situation.guidellm.version):
        yield _finding("blocker", sentence)
    for sentence in doubts(plan):
        yield _finding("warning", sentence)


def _finding(status: Literal["blocker", "warning"], sentence: str) -> Finding:
    said, _, fix = sentence.partition("; ")
    return Finding(CHECK, status, f"{said}.", f"{fix[:1].upper()}{fix[1:]}")
