"""What a speculative method switches off in an engine by itself, switched off on the baseline as well."""

from typing import Any, Literal

Switch = Literal["async-scheduling", "model-runner"]
SWITCHES: tuple[Switch, ...] = ("async-scheduling", "model-runner")
#: The arm that is served so.
NAME = "baseline-equal-engine"
#: vLLM's argument of a switch, and the variable that keeps its first model runner.
_ARGUMENTS: dict[Switch, dict[str, Any]] = {"async-scheduling": {"async-scheduling": False}}
_VARIABLES: dict[Switch, dict[str, str]] = {"model-runner": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}


def chosen(asked: bool | list[Switch]) -> tuple[Switch, ...]:
    """Return what a study wants switched off: all where it says ``true``."""
    return (SWITCHES if asked else ()) if isinstance(asked, bool) else tuple(asked)


def switched_off(switches: tuple[Switch, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments of ``vllm serve`` and the variables that switch these off."""
    arguments, variables = ({k: v for one in switches for k, v in table.get(one, {}).items()}
                            for table in (_ARGUMENTS, _VARIABLES))  # fmt: skip
    return arguments, variables
