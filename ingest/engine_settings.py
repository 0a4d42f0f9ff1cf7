"""What an engine made of its arguments, the kernels that it compiled during a load, and its KV cache.

Names are those of ``Facts.engine_settings``, values the engine's words; what is not said is left
out. ``by_method`` names what the log says that the speculation changed.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ingest.counters import Window
from warehouse.rows import Flag

# --- Kernels that the server compiled during a load, by its log: what compiling takes is no serving.
#
# A log tells its machine's own time, often without the year. It is cut when its cell ends, so between
# its last line and the record's end lies less than the half-hour by which clocks are apart.


_EVENT = re.compile(
    r"JIT compilation during inference: *(?P<kernel>[\w.<>]*\w)?|Autotuning kernel (?P<tuned>\w+)"
    r"|Autotuning process starts|AUTOTUNE \w+\(|Compiling a graph for|torch\.compile took"
    r"|Entering DeepGEMM JIT"
)
_DATE = re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_ZONE, _ROUNDED = 1800.0, 2.0
_NAMED = 3


def compiled(log: str, window: Window | None, ended: datetime | None) -> tuple[Flag, ...]:
    """Return a flag where the log tells of kernels compiled within the window (unix seconds).

    ``ended``: when the cell's record ended, at which its log was cut.
    """
    last = _date_before(log, len(log))
    if window is None or ended is None or last is None:
        return ()
    idle = (ended.astimezone(UTC) - last).total_seconds() + _ROUNDED
    end = ended.timestamp() + _ROUNDED - idle % _ZONE
    found = []
    for event in _EVENT.finditer(log):
        date = _date_before(log, event.start())
        # A second of a log is as long as any.
        if date and window[0] - 1 < end - (last - date).total_seconds() <= window[1]:
            found.append(event["kernel"] or event["tuned"] or event[0].strip(" (:"))
    if not found:
        return ()
    names = list(dict.fromkeys(found))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    kernels = "A kernel was" if len(found) == 1 else f"{len(found)} kernels were"
    return (
        Flag(
            "compiled_during_load",
            "warning",
            f"{kernels} compiled during this load ({', '.join(names[:_NAMED])}{more}), and requests "
            "waited for it: it shows no steady state; measure it again with a longer warm-up.",
        ),
    )


def _date_before(log: str, place: int) -> datetime | None:
    # The date of a line that bears none stands so near before it: characters.
    found = _DATE.findall(log, max(place - (1 << 16), 0), place)
    try:
        month, day, hour, minute, second = map(int, found[-1])
        return datetime(2000, month, day, hour, minute, second, tzinfo=UTC)
    except (IndexError, ValueError):
        return None


# --- What an engine made of its arguments: by its own configuration, or by what its log says.


Settings = dict[str, Any]

#: vLLM's numbers for its modes, where it does not spell them.
_COMPILE = {"0": "NONE", "1": "STOCK_TORCH_COMPILE", "2": "DYNAMO_TRACE_ONCE",
            "3": "VLLM_COMPILE"}  # fmt: skip
_GRAPHS = {"0": "NONE", "1": "PIECEWISE", "2": "FULL", "[2, 0]": "FULL_DECODE_ONLY",
           "[2, 1]": "FULL_AND_PIECEWISE"}  # fmt: skip
#: What a line of a log, or a configuration written as text, says of a setting; the first counts.
_LINES = {
    "async_scheduling": r"Asynchronous scheduling is (enabled|disabled)",
    "model_runner": r"[Uu]sing (?:the )?(V\d) [Mm]odel [Rr]unner",
    "attention_backend": r"(?i:Using (?:AttentionBackendEnum\.)?(\w+) attention backend)",
    "cuda_graphs": r"cudagraph_mode['\"]?: <CUDAGraphMode\.(\w+)",
    "cuda_graph_max": r"max_cudagraph_capture_size['\"]?: (\d+)",
    "enforce_eager": r"enforce_eager=(True|False)",
    "compile_mode": r"CompilationMode\.(\w+)",
    "kv_cache_tokens": r"(?:KV cache size: |max_total_num_tokens=)([\d,]+)",
    "kv_cache_dtype": r"kv_cache_dtype='?(\w+)",
}
_SAID = {"enabled": True, "True": True, "disabled": False, "False": False}
#: A worker may take other graphs than its configuration says.
_OTHER_GRAPHS = re.compile(r"setting cudagraph_mode=(?:CUDAGraphMode\.)?(\w+)")
#: What the log says where it is the speculation that changes a setting.
_BY_METHOD = {
    "async_scheduling": r"(?i:(?:async\w* schedul|overlap schedul)[^\n]*disabled[^\n]*specul"
    r"|async\w* schedul[^\n]*specul[^\n]*disabled)",
    "cuda_graphs": r"(?i:cudagraphmode[^\n]*not supported with spec)",
    "model_runner": r"Model Runner V2[^\n]*specul",
}
_RUNNER_V1 = re.compile(r"\[(?:gpu|cpu)_model_runner\.py:")
#: SGLang writes its arguments into its log.
_SGLANG = re.compile(r"ServerArgs\(([^\n]*)")
_ARGUMENT = re.compile(r"(\w+)=('[^']*'|[\w.-]+)")


def of_vllm(config: Mapping[str, Any]) -> Settings:
    """Return what vLLM's whole configuration says: ``engine.json``, or its ``/server_info``."""
    part = {
        name: config[name] if isinstance(config.get(name), Mapping) else {}
        for name in ("cache_config", "compilation_config", "scheduler_config", "attention_config",
                     "model_config")
    }  # fmt: skip
    cache, compiled = part["cache_config"], part["compilation_config"]
    mode, graphs = compiled.get("mode", compiled.get("level")), compiled.get("cudagraph_mode")
    return _plain(
        {
            "async_scheduling": part["scheduler_config"].get("async_scheduling"),
            "attention_backend": part["attention_config"].get("backend"),
            "cuda_graphs": _GRAPHS.get(str(graphs), graphs),
            "cuda_graph_max": compiled.get("max_cudagraph_capture_size"),
            "enforce_eager": part["model_config"].get("enforce_eager"),
            "compile_mode": _COMPILE.get(str(mode), mode),
            "kv_cache_tokens": cache.get("kv_cache_size_tokens"),
            "kv_cache_blocks": cache.get("num_gpu_blocks"),
            "kv_cache_dtype": cache.get("cache_dtype"),
        }
    )


def of_sglang(told: Mapping[str, Any]) -> Settings:
    """Return what SGLang's ``/server_info`` says."""
    switches = {
        "async_scheduling": ("disable_overlap_schedule", (True, False)),
        "cuda_graphs": ("disable_cuda_graph", ("on", "off")),
        "compile_mode": ("enable_torch_compile", ("none", "torch.compile")),
    }
    said: Settings = {
        setting: words[told[name]]
        for setting, (name, words) in switches.items() if isinstance(told.get(name), bool)
    }  # fmt: skip
    return _plain(
        said
        | {
            "attention_backend": told.get("attention_backend"),
            "cuda_graph_max": told.get("cuda_graph_max_bs"),
            "kv_cache_tokens": told.get("max_total_num_tokens"),
            "kv_cache_dtype": told.get("kv_cache_dtype"),
        }
    )


def of_text(text: str) -> Settings:
    """Return what a server's log says, or a configuration that is written as text."""
    # An engine says what it runs with when it starts: characters.
    text = text[: 1 << 20]
    found: Settings = {
        name: _value(match[1])
        for name, pattern in _LINES.items() if (match := re.search(pattern, text)) is not None
    }  # fmt: skip
    if "model_runner" not in found and _RUNNER_V1.search(text):
        found["model_runner"] = "V1"
    if (arguments := _SGLANG.search(text)) is not None:
        told = _ARGUMENT.findall(arguments[1])
        found |= of_sglang({name: _value(said) for name, said in told if said != "None"})
    changed = [name for name, pattern in _BY_METHOD.items() if re.search(pattern, text)]
    return found | ({"by_method": changed} if changed else {})


def merged(config: Settings, text: str) -> Settings:
    """Return what the configuration says, and of the log what only it knows."""
    other = _OTHER_GRAPHS.findall(text)
    return of_text(text) | config | ({"cuda_graphs": other[-1]} if other else {})


def _value(said: str) -> Any:
    said = said.strip("'").replace(",", "")
    return _SAID.get(said, int(said) if said.isdecimal() else said)


def _plain(said: Settings) -> Settings:
    return {
        name: value for name, value in said.items()
        if isinstance(value, bool | int | str) and value != "" and len(str(value)) <= 60
    }  # fmt: skip
