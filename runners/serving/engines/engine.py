"""What an engine has to tell so that it can be started and measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.planning.study import Study, Variant
from runners.surroundings.tools import Kind
from warehouse.errors import RunnerError

#: Study, arm and tensor parallel size -> the words of a command line; ``{port}`` stands for the port.
Command = Callable[[Study, Variant, int], list[str]]


@dataclass(frozen=True)
class Engine:
    """One engine. ``tool``: the executable's name in the study; ``always``: variables that each of
    its servers gets. A server answers on ``/health`` when it is up."""

    name: str
    title: str
    tool: Kind
    command: Command
    always: Mapping[str, str] = field(default_factory=dict)


def words(named: Mapping[str, Any]) -> list[str]:
    """Return named arguments, such as ``{"ctx_size": 512, "metrics": True}``, as ``--ctx-size 512
    --metrics``; what is false is left out."""
    found: list[str] = []
    for name, value in named.items():
        flag = f"--{name.lstrip('-').replace('_', '-')}"
        if value is True:
            found.append(flag)
        elif value is not False and value is not None:
            found += [flag, str(value)]
    return found


def translated(method: str, known: Mapping[str, str], title: str) -> str:
    """Return an engine's own name of a method. Raises RunnerError for one that it does not have."""
    if method not in known:
        raise RunnerError(
            f"{title} has no speculative method {method!r} that this software knows; it has "
            f"{', '.join(known)}."
        )
    return known[method]
