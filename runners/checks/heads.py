"""Whether a draft is of the kind that its method drafts with; vLLM finds out after it has loaded it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runners.checks.finding import Finding, Situation, configurations
from runners.checks.methods import method
from runners.planning.plan import Launch
from runners.surroundings.models import ModelFiles, text_config

#: A header of more is no header.
_LONGEST = 100 << 20
_LAYERS = (
    "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers",
    "mtp_num_layers",
)  # fmt: skip
#: Families whose prediction layers no number in their configuration tells of (vLLM 0.32).
_UNTOLD = ("longcat", "step3", "mimo", "gemma4", "minimax_m3", "dots3", "nemotron")
#: A head is one layer or two; more without a word about it is a model of its own.
_HEAD_LAYERS = 2


def is_eagle(files: ModelFiles) -> bool | None:
    """Return whether the draft takes the target's hidden states, as EAGLE's heads do; None where
    nothing tells."""
    config = files.config
    if config is None:
        return None
    if _says(config, "eagle"):
        return True
    names = None if files.folder is None else tensor_names(files.folder)
    if names is not None:
        # The projection of a token and a hidden state: no other model has it.
        return any("fc" in name.split(".") for name in names)
    layers = text_config(config).get("num_hidden_layers")
    return False if isinstance(layers, int) and layers > _HEAD_LAYERS else None


def is_called(files: ModelFiles, word: str) -> bool | None:
    """Return whether the configuration says ``word`` ("medusa") of itself; None where there is
    none."""
    return None if files.config is None else _says(files.config, word)


def predicts_more(files: ModelFiles) -> bool | None:
    """Return whether a model has layers that predict more than one token (MTP); None where nothing
    tells."""
    if files.config is None:
        return None
    said = text_config(files.config)
    found = [said[name] for name in _LAYERS if isinstance(said.get(name), int)]
    if found:
        return bool(max(found) > 0)
    if str(said.get("model_type", "")).startswith(_UNTOLD) or _says(files.config, "mtp"):
        return None
    return False


def _says(config: Mapping[str, Any], word: str) -> bool:
    """Return whether a configuration holds a word in a key, the type, the architecture or what
    speculators write into it."""
    kind = [config.get(name) for name in ("model_type", "architectures", "speculators_model_type",
                                          "speculators_config")]  # fmt: skip
    return word in json.dumps([list(config), kind]).lower()


def tensor_names(folder: Path) -> frozenset[str] | None:
    """Return the names of the tensors in a folder's safetensors files; None where there are none to
    be read."""
    names: set[str] = set()
    files = sorted(folder.glob("*.safetensors"))
    for file in files:
        try:
            with file.open("rb") as opened:
                length = int.from_bytes(opened.read(8), "little")
                header = json.loads(opened.read(length)) if 0 < length <= _LONGEST else {}
        except (OSError, ValueError):
            return None
        names |= set(header) - {"__metadata__"} if isinstance(header, dict) else set()
    return frozenset(names) if names else None


CHECK = "heads"
_WITH_A_DRAFT = ("eagle", "eagle3", "medusa", "mlp_speculator", "draft_model")


def check(situation: Situation) -> Iterator[Finding]:
    """Check once for each arm that its draft is of the kind that its method needs."""
    if situation.plan is None:
        return
    found = [
        finding
        for launch in configurations(situation.plan)
        for finding in _problems(situation, launch)
    ]
    yield from dict.fromkeys(found)


def _problems(situation: Situation, launch: Launch) -> Iterator[Finding]:
    named, draft = method(launch), situation.draft(launch)
    arm = launch.variant.arm
    if named in _WITH_A_DRAFT and "model" not in (launch.variant.speculative_config or {}):
        yield _blocker(
            f"The arm {arm} drafts by {named} and names no draft.",
            "Name it: speculative_config: {model: …}.",
        )
    elif named in ("eagle", "eagle3") and draft is not None and is_eagle(draft) is False:
        yield _other(arm, draft, "an EAGLE head", "method: draft_model")
    elif named in ("medusa", "mlp_speculator") and draft is not None:
        if is_called(draft, named) is False:
            yield _other(arm, draft, f"a {named} head", "method: draft_model")
    elif named is not None and named.endswith("mtp"):
        yield from _mtp(arm, draft or situation.target())


def _other(arm: str, draft: ModelFiles, wanted: str, instead: str) -> Finding:
    return _blocker(
        f"The arm {arm} needs {wanted}, and {draft.model} is a model of its own.",
        f"Name a draft that is {wanted}, or write {instead}.",
    )


def _mtp(arm: str, model: ModelFiles | None) -> Iterator[Finding]:
    if model is not None and predicts_more(model) is False:
        yield _blocker(
            f"The arm {arm} drafts by layers for multi-token prediction, and {model.model} has "
            "none.",
            "Take another method (ngram, or a draft), or a target that was trained with them.",
        )


def _blocker(said: str, fix: str) -> Finding:
    return Finding(CHECK, "blocker", said, fix)
