"""Answers in JSON as rows of a table: one row per line of the answer, nested names with a dot."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Row = dict[str, Any]
#: Columns of the warehouse that hold JSON as text.
_NESTED = (
    "commands",
    "environment",
    "settings",
    "report_config",
    "server_args",
    "speculative_config",
)


def nested_json(row: Mapping[str, Any]) -> Row:
    """Return a run or a cell with its commands, environment … as JSON values instead of texts."""
    return {**row} | {name: json.loads(row[name]) for name in _NESTED if row.get(name)}


def of(name: str) -> Callable[[Row], Iterator[Row]]:
    """Return a function that gives the rows of one list of an answer."""
    return lambda told: iter(told[name])


def nothing(_: Row) -> Iterator[Row]:
    """Give no row."""
    return iter(())


def compared(told: Row) -> Iterator[Row]:
    """Give a row per setting, arm, load and metric."""
    for setting in told["settings"]:
        for arm in setting["arms"]:
            for level in arm["levels"]:
                about = _without_lists(setting) | {"arm": arm["arm"]}
                yield about | {"arm_value" if k == "arm" else k: v for k, v in level.items()}


def decided(told: Row) -> Iterator[Row]:
    """Give a row per decision and load."""
    for decision in told["decisions"]:
        for level in decision["loads"]:
            yield _without_lists(decision) | {"level": level}


def _without_lists(told: Row) -> Row:
    return {name: value for name, value in told.items() if not isinstance(value, list)}
