"""What an executable's environment is asked, under its own Python: ``python probe.py QUESTION``.

One line of JSON comes on standard input and one goes to standard output: a function each. Where a
library raises, the last line of its traceback is what the caller reads.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import io
import json
import os
import platform
import re
import runpy
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SMALL = ["config.json", "tokenizer*", "vocab*", "merges.txt", "*.index.json"]
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def versions(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the versions of installed distributions, without importing any of them.

    In: {"distributions": [name, …]}. Out: {"python": …, "versions": {name: version or null},
    "torch_cuda": what torch was built for, "torch_hip": …}.
    """
    found: dict[str, str | None] = dict.fromkeys(asked["distributions"])
    for name in found:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    # What torch's own version.py says; importing torch would take seconds.
    torch, spec = {}, importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        file = Path(spec.origin).with_name("version.py")
        torch = runpy.run_path(str(file)) if file.is_file() else {}
    return {
        "python": platform.python_version(),
        "versions": found,
        "torch_cuda": torch.get("cuda"),
        "torch_hip": torch.get("hip"),
    }


def hub(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return small files of a model, or the existence of a dataset, from the Hugging Face hub.

    In: {"kind": "model" or "dataset", "id": …, "revision": null or …}.
    Out: {"folder": snapshot folder or null, "revision": commit, "weight_bytes": …}. Only
    configuration and tokenizer files are fetched; endpoint, cache, token and offline mode are
    huggingface_hub's own settings.
    """
    importlib.import_module("huggingface_hub.utils").disable_progress_bars()
    library, revision = importlib.import_module("huggingface_hub"), asked["revision"]
    if asked["kind"] == "dataset":
        found = library.HfApi().dataset_info(asked["id"], revision=revision, timeout=10)
        return {"folder": None, "revision": found.sha, "weight_bytes": None}
    found = library.HfApi().model_info(
        asked["id"], revision=revision, files_metadata=True, timeout=10
    )
    # Of the first kind of weight file that vLLM would take, without other copies.
    kinds = (
        [
            file.size
            for file in found.siblings or ()
            if file.rfilename.endswith(ending) and "/" not in file.rfilename
        ]
        for ending in _WEIGHTS
    )
    return {
        "folder": library.snapshot_download(asked["id"], revision=revision, allow_patterns=_SMALL),
        "revision": found.sha,
        "weight_bytes": next((int(sum(sizes)) for sizes in kinds if sizes and all(sizes)), None),
    }


def rows(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Write the rows of a dataset of the Hugging Face hub, or of a Parquet file, into a file.

    In: {"parquet": path or null, "hub": {"id", "config", "split", "revision", "file"} or null,
    "columns": […], "into": path}. Out: {"columns": every column there is}; the rows, one JSON
    object a line with the asked columns that exist, go to ``into``.
    """
    named = asked["hub"]
    if named is None:
        found = importlib.import_module("pyarrow.parquet").ParquetFile(asked["parquet"])
        columns = list(found.schema_arrow.names)
    else:
        library = importlib.import_module("datasets")
        library.disable_progress_bars()
        found = library.load_dataset(
            named["id"], named["config"], split=named["split"], revision=named["revision"],
            data_files=named["file"],
        )  # fmt: skip
        columns = list(found.column_names)
    wanted = [name for name in asked["columns"] if name in columns]
    batches: Any = ()
    if wanted and named is None:
        batches = (batch.to_pylist() for batch in found.iter_batches(columns=wanted))
    elif wanted:
        batches = (found.select_columns(wanted),)
    with open(asked["into"], "w", encoding="utf-8") as file:  # noqa: PTH123
        for row in (row for batch in batches for row in batch):
            file.write(json.dumps(row, default=str) + "\n")
    return {"columns": columns}


def cut(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return prompts of so many tokens, as the server counts them.

    In: {"tokenizer": folder or id, "revision": null or …, "texts": every text of the dataset, "chosen":
    [place, …], "tokens": …, "chat": bool}. Out: {"tokens": of all texts together, "prompts": one for each
    chosen place, none where all texts are shorter than one}. A text's end stays its prompt's end; before
    a short one stand the texts before it.
    """
    library = importlib.import_module("transformers").AutoTokenizer
    tokenizer = library.from_pretrained(asked["tokenizer"], revision=asked["revision"] or "main")
    texts, wanted, around, prompts = asked["texts"], asked["tokens"], "{}", []
    chat = asked["chat"] and tokenizer.chat_template is not None
    if chat:
        talk = [{"role": "user", "content": around}]
        around = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    sizes = [len(tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    for place in asked["chosen"] if sum(sizes) >= wanted else ():
        first, kept, prompt = place, wanted, ""
        while sum(sizes[at] for at in range(first, place + 1)) < wanted:
            first -= 1
        whole = "\n".join(texts[at] for at in range(first, place + 1))
        found = tokenizer.encode(whole, add_special_tokens=False)
        # What is around a prompt counts too, and a cut may part what was one token.
        for _ in range(4):
            prompt = tokenizer.decode(found[-kept:]).lstrip("\ufffd")
            sent = tokenizer.encode(around.replace("{}", prompt), add_special_tokens=not chat)
            kept = max(kept + wanted - len(sent), 1)
        prompts.append(prompt)
    return {"tokens": sum(sizes), "prompts": prompts}


def _member(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def _words(literal: Any) -> list[str]:
    members = typing.get_args(literal)
    if not members:
        return [literal] if isinstance(literal, str) else []
    return [word for member in members for word in _words(member)]


def _switches_off(methods: list[str]) -> dict[str, list[str]]:
    """Return the methods with which this release switches off what it else has. It knows that only
    in the middle of its own start, so its source is read."""
    config = _member("vllm.config.vllm", "VllmConfig")
    source = "" if config is None else inspect.getsource(config)
    # A method of one model's own is "mtp" by then.
    every = {method for method in methods if not method.endswith("_mtp")}
    before, there, _ = source.partition("Async scheduling not supported with %s-based")
    condition = before.rpartition("elif (")[2]
    types = re.findall(r"\b\w+Types\b", condition)
    kept = {word for name in types for word in _words(_member("vllm.config.speculative", name))}
    kept |= set(re.findall(r'"(\w+)"', condition))
    body = source.partition("def _get_v2_model_runner_unsupported_features")[2].partition(
        "\n    def "
    )[0]
    first: set[str] = set()
    for negated, named in re.findall(r"if speculative_config\.method (not )?in \(([^)]*)\)", body):
        listed = set(re.findall(r'"(\w+)"', named))
        first |= every - listed if negated else every & listed
    return {
        "async-scheduling": sorted(every - kept) if there else [], "model-runner": sorted(first),
    }  # fmt: skip


def _refusals(commands: list[list[str]]) -> list[str | None]:
    made = _member("vllm.entrypoints.cli.serve", "cmd_init")
    flexible = _member("vllm.utils.argparse_utils", "FlexibleArgumentParser")
    flexible = flexible or _member("vllm.utils", "FlexibleArgumentParser")
    refusals: list[str | None] = [None] * len(commands)
    if not commands or made is None or flexible is None:
        return refusals
    parser = made()[0].subparser_init(flexible().add_subparsers())
    for place, words in enumerate(commands):
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parser.parse_args(words)
        except (SystemExit, ValueError, argparse.ArgumentError) as error:
            last = said.getvalue().strip().splitlines()[-1:] or [str(error)]
            refusals[place] = last[0].rpartition("error: ")[2]
    return refusals


def vllm(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what this vLLM knows: speculative methods, their settings, its own command line.

    In: {"commands": [[word, …], …]}, the words after ``vllm serve``. Out: {"methods": […],
    "settings": […], "memory_share": default of --gpu-memory-utilization, "device": "cuda", "cpu" …,
    "suffix_decoding": whether its package is there, "choices": {setting: the words that it takes},
    "switches_off": {"async-scheduling", "model-runner": methods that go without},
    "refusals": [null or the parser's words, one for each command]}. What a release does not have is
    null. Takes seconds, as every import of vLLM does.
    """
    refusals = _refusals(asked["commands"])
    config = _member("vllm.config.speculative", "SpeculativeConfig")
    settings = getattr(config, "__dataclass_fields__", None)
    share = getattr(_member("vllm.config.cache", "CacheConfig"), "gpu_memory_utilization", None)
    methods = _words(_member("vllm.config.speculative", "SpeculativeMethod"))
    named = {"rejection_sample_method": "RejectionSampleMethod",
             "draft_sample_method": "DraftSampleMethod"}  # fmt: skip
    choices = {name: _words(_member("vllm.config.speculative", k)) for name, k in named.items()}
    return {
        "methods": methods or None,
        "settings": None if settings is None else sorted(settings),
        "memory_share": float(share) if isinstance(share, (int, float)) else None,
        "device": getattr(_member("vllm.platforms", "current_platform"), "device_type", None)
        or None,
        "suffix_decoding": importlib.util.find_spec("arctic_inference") is not None,
        "choices": {name: known for name, known in choices.items() if known},
        "switches_off": _switches_off(methods),
        "refusals": refusals,
    }


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    # Libraries write to stdout, vLLM its log; the answer alone goes there.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer = {"versions": versions, "hub": hub, "rows": rows, "cut": cut, "vllm": vllm}[
        sys.argv[1]
    ](asked)
    out.write(json.dumps(answer) + "\n")
    out.close()


main()
