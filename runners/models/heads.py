"""Which kind of draft a model's files hold, by its configuration and the names of its tensors."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runners.models.model_files import ModelFiles
from runners.models.model_size import text_config

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
