"""What a speculative method switches off in an engine by itself, switched off on the baseline as well."""

from typing import Any, Literal

Switch = Literal["async-scheduling", "model-runner"]
#: The arguments of ``vllm serve`` and the variables that switch something off.
SWITCHES: dict[Switch, tuple[dict[str, Any], dict[str, str]]] = {
    "async-scheduling": ({"async-scheduling": False}, {}),
    "model-runner": ({}, {"VLLM_USE_V2_MODEL_RUNNER": "0"}),
}
#: The arm that is served so.
NAME = "baseline-equal-engine"
