"""What a vLLM ``--speculative-config`` says of an arm, in the contract's words."""

from typing import Any

_NAMES = {
    "method": "spec_method",
    "num_speculative_tokens": "num_speculative_tokens",
    "model": "draft_model",
    "revision": "draft_revision",
}


def facts_of(config: dict[str, Any] | None) -> dict[str, Any]:
    """Return the facts that follow from a speculative configuration; empty where it says
    nothing."""
    if not config:
        return {}
    facts = {fact: config[key] for key, fact in _NAMES.items() if config.get(key) is not None}
    facts["speculative_config"] = config
    if config.get("rejection_sample_method") == "synthetic":
        facts["synthetic_acceptance"] = True
    return facts


def completed(facts: dict[str, Any]) -> dict[str, Any]:
    """Add to facts what their ``speculative_config`` implies; what was stated itself wins."""
    config = facts.get("speculative_config")
    return facts_of(config if isinstance(config, dict) else None) | facts
