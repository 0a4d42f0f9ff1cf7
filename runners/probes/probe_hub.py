"""Small files of a model, or the existence of a dataset, from the Hugging Face hub.

In: {"kind": "model" or "dataset", "id": …, "revision": null or …}.
Out: {"folder": snapshot folder or null, "revision": commit, "weight_bytes": …}. Only configuration
and tokenizer files are fetched; endpoint, cache, token and offline mode are huggingface_hub's own
settings, and so are the errors: the last line of their traceback is what the caller reads.
"""

import importlib
import json
import sys
from typing import Any

_SMALL = ["config.json", "tokenizer*", "vocab*", "merges.txt", "*.index.json"]
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def _look(hub: Any, asked: dict[str, Any]) -> dict[str, Any]:
    api = hub.HfApi()
    if asked["kind"] == "dataset":
        found = api.dataset_info(asked["id"], revision=asked["revision"], timeout=10)
        return {"folder": None, "revision": found.sha, "weight_bytes": None}
    found = api.model_info(asked["id"], revision=asked["revision"], files_metadata=True, timeout=10)
    folder = hub.snapshot_download(asked["id"], revision=asked["revision"], allow_patterns=_SMALL)
    return {"folder": folder, "revision": found.sha, "weight_bytes": _weights(found.siblings)}


def _weights(files: Any) -> int | None:
    """Return the bytes of the first kind of weight file that vLLM would take, without other
    copies."""
    for ending in _WEIGHTS:
        sizes = [
            f.size for f in files or () if f.rfilename.endswith(ending) and "/" not in f.rfilename
        ]
        if sizes and all(sizes):
            return int(sum(sizes))
    return None


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    importlib.import_module("huggingface_hub.utils").disable_progress_bars()
    answer = _look(importlib.import_module("huggingface_hub"), asked)
    sys.stdout.write(json.dumps(answer) + "\n")


main()
