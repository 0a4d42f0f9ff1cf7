"""What a server says of itself, held against what the study says of it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.measuring.guidellm import served_model
from runners.models.model_files import is_path
from runners.planning.plan import Launch
from runners.planning.study import Study
from runners.serving import endpoint
from runners.serving.diagnosis import Diagnosis
from runners.serving.endpoint import SILENT
from warehouse.contract import TABLE, steps_of, table_of

# --- What a server says of itself, in values; vLLM's words for counters, cache and configuration.


#: The first question makes vLLM collect what its machine is, which takes seconds.
_CONFIGURATION_S = 60.0
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_POSITION = re.compile(
    r'^vllm:spec_decode_num_accepted_tokens_per_pos(?:_total)?\{.*position="(\d+)"', re.MULTILINE
)
_DRAFTS = re.compile(r"^vllm:spec_decode_num_drafts(?:_total)?[{ ]", re.MULTILINE)
_CACHE = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)


@dataclass(frozen=True)
class Served:
    """One model that the server lists. None: the server does not say it."""

    name: str
    root: str | None = None
    max_model_len: int | None = None


@dataclass(frozen=True)
class Resolved:
    """vLLM's configuration as the engine runs with it, after its own defaults. None: unsaid."""

    dtype: str | None = None
    quantization: str | None = None
    reasoning_parser: str | None = None
    tensor_parallel_size: int | None = None
    method: str | None = None
    draft_tokens: int | None = None
    whole: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """All that it told, in its own words."""
    table: list[Any] | None = None
    """K by batch size; None also where vLLM took it away, as it does beside data parallelism."""
    rejection_sample_method: str | None = None
    draft_sample_method: str | None = None
    parallel_drafting: bool | None = None
    adaptive_verification: bool | None = None
    disable_eagle_block_drop: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what is known, by name, without the field ``whole``."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {name: value for name, value in known.items() if name != "whole"}


@dataclass(frozen=True)
class Said:
    """All that a server said of itself. None: it was not said."""

    engine: str | None = None
    version: str | None = None
    models: tuple[Served, ...] | None = None
    drafts: bool | None = None
    """Whether it has counters of drafts; None where its metrics are not vLLM's."""
    draft_tokens: int | None = None
    cache: Mapping[str, str] = field(default_factory=dict)
    """Labels of vLLM's ``cache_config_info``."""
    resolved: Resolved | None = None

    @property
    def prefix_caching(self) -> bool | None:
        """Whether the server keeps prefixes; None where it does not say."""
        return {"True": True, "False": False}.get(self.cache.get("enable_prefix_caching", ""))


def counters(metrics: str) -> tuple[bool | None, int | None]:
    """Return whether the server drafts, by vLLM's ``/metrics``, and how many tokens at most."""
    if "vllm:" not in metrics:
        return None, None
    positions = [int(found) for found in _POSITION.findall(metrics)]
    return bool(_DRAFTS.search(metrics)), max(positions, default=-1) + 1 or None


def resolved(url: str) -> Resolved | None:
    """Return vLLM's configuration; None where it has no such route (VLLM_SERVER_DEV_MODE opens
    it)."""
    said = json_of(f"{url}/server_info?config_format=json", _CONFIGURATION_S)
    config = said.get("vllm_config") if isinstance(said, dict) else None
    if not isinstance(config, dict):
        return None
    model, speculation = _part(config, "model_config"), _part(config, "speculative_config")
    return Resolved(
        dtype=_text(model.get("dtype")),
        quantization=_text(model.get("quantization")),
        reasoning_parser=_text(_part(config, "structured_outputs_config").get("reasoning_parser")),
        tensor_parallel_size=_number(_part(config, "parallel_config").get("tensor_parallel_size")),
        method=_text(speculation.get("method")),
        draft_tokens=_number(speculation.get("num_speculative_tokens")),
        whole=config,
        table=_list(speculation.get(TABLE)),
        rejection_sample_method=_text(speculation.get("rejection_sample_method")),
        draft_sample_method=_text(speculation.get("draft_sample_method")),
        parallel_drafting=_truth(speculation.get("parallel_drafting")),
        adaptive_verification=_truth(speculation.get("enable_adaptive_verification")),
        disable_eagle_block_drop=_truth(speculation.get("disable_eagle_block_drop")),
    )


def _part(config: dict[str, Any], name: str) -> dict[str, Any]:
    part = config.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _list(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def version(url: str) -> str | None:
    """Return what vLLM's ``/version`` says."""
    said = json_of(f"{url}/version")
    return _text(said.get("version")) if isinstance(said, dict) else None


def models(url: str) -> tuple[Served, ...] | None:
    """Return the models that ``/v1/models`` lists; None where it does not."""
    said = json_of(f"{url}/v1/models")
    cards = said.get("data") if isinstance(said, dict) else None
    if not isinstance(cards, list):
        return None
    known = [card for card in cards if isinstance(card, dict) and _text(card.get("id"))]
    return tuple(
        Served(card["id"], _text(card.get("root")), _number(card.get("max_model_len")))
        for card in known
    )


def cache_labels(metrics: str) -> dict[str, str]:
    """Return the labels of vLLM's ``cache_config_info``; empty where there is none."""
    found = _CACHE.search(metrics)
    return dict(_LABEL.findall(found[1])) if found else {}


def json_of(url: str, timeout_s: float = 10.0) -> Any:
    """Return the JSON at an address; None where there is none."""
    try:
        return json.loads(read(url, timeout_s) or "null")
    except ValueError:
        return None


def read(url: str, timeout_s: float = 10.0) -> str | None:
    """Return the text at an address; None where there is none."""
    try:
        return endpoint.fetch(url, timeout_s)
    except SILENT:
        return None


# --- What a server says of itself, held against what the study says of it.


#: Words of engines and studies for the same thing.
_SAME = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32",
    "gpt_oss_mxfp4": "mxfp4", "modelopt_fp4": "nvfp4", "fbgemm_fp8": "fp8", "awq_marlin": "awq",
    "gptq_marlin": "gptq",
}  # fmt: skip
_PLAIN = {"bf16", "fp16", "fp32"}
#: Of these, and of plain ones, one is never the other.
_DISTINCT = _PLAIN | {"mxfp4", "nvfp4", "fp8", "awq", "gptq"}


def precision_of(dtype: str | None, quantization: str | None) -> str | None:
    """Return one word for what an engine says of its weights: its quantization, else its dtype."""
    said = quantization or (dtype or "").removeprefix("torch.")
    word = said.lower()
    return _SAME.get(word, word) or None


def contradicts(stated: str, found: str) -> bool | None:
    """Return whether a study's word and an engine's exclude one another; None where nobody can
    tell.

    A bit count (int4, w4a16) can be several formats, so it contradicts only an unquantized model.
    """
    word = _SAME.get(stated.lower(), stated.lower())
    if word == found:
        return False
    if (word in _PLAIN) != (found in _PLAIN):
        return True
    return True if {word, found} <= _DISTINCT else None


#: The cause of a cell whose server is not the one that the study says.
OTHER_SERVER = "other_server"
#: Engine arguments that vLLM's metrics show, and the label that does.
_SHOWN = {
    "kv-cache-dtype": "cache_dtype",
    "block-size": "block_size",
    "gpu-memory-utilization": "gpu_memory_utilization",
    "enable-prefix-caching": "enable_prefix_caching",
}


def contradictions(said: Said, study: Study, launch: Launch) -> list[str]:
    """Return one clause for each thing that the server says otherwise than the study; empty: it
    fits."""
    return [
        *_model(said, study, launch),
        *_speculation(said.drafts, said.draft_tokens, launch),
        *_arguments(said, study, launch),
        *(_resolved(said.resolved, study, launch) if said.resolved else ()),
    ]


def wrong_arm(metrics: str, launch: Launch) -> Diagnosis | None:
    """Say why counters cannot be those of this arm: it drafts and should not, or the other way
    round."""
    drafts, _ = counters(metrics)
    clauses = list(_speculation(drafts, None, launch))
    if not clauses:
        return None
    return Diagnosis(OTHER_SERVER, f"This is not the arm {launch.variant.name}: {clauses[0]}.")


def not_as_asked(found: Resolved | None, study: Study, launch: Launch) -> Diagnosis | None:
    """Say why a server that was started here is not what the study says: its precision is another,
    or the engine took back how drafts are sized or verified."""
    config = launch.variant.speculative_config or {}
    clauses = [*_precision(found, study), *_drafting(found, config)] if found else []
    return (
        Diagnosis(OTHER_SERVER, f"{clauses[0][:1].upper()}{clauses[0][1:]}.") if clauses else None
    )


def stated_only(said: Said, study: Study) -> list[str]:
    """Return the facts of the record that are the study's word alone: the server showed nothing of
    them."""
    unseen = []
    if not any(card.name == served_model(study) for card in said.models or ()):
        unseen.append("model")
    if said.drafts is None:
        unseen.append("speculative_config")
    if precision_is_stated(said.resolved, study):
        unseen.append("precision")
    if said.resolved is None or said.resolved.tensor_parallel_size is None:
        unseen.append("tensor_parallel_size")
    return unseen


def precision_is_stated(found: Resolved | None, study: Study) -> bool:
    """Return whether the study names a precision that nothing the engine says confirms."""
    stated = study.target.precision
    if stated is None:
        return False
    word = None if found is None else precision_of(found.dtype, found.quantization)
    return word is None or contradicts(stated, word) is not False


def _model(said: Said, study: Study, launch: Launch) -> Iterator[str]:
    if said.models is None:
        return
    named = [card for card in said.models if card.name == served_model(study)]
    if not named:
        have = ", ".join(card.name for card in said.models) or "none"
        yield f"it serves {have}, and the study asks for {served_model(study)} (target.served_name)"
        return
    yield from _card(named[0], study, launch)


def _card(card: Served, study: Study, launch: Launch) -> Iterator[str]:
    asked = study.target.model
    if card.root and not is_path(card.root) and not is_path(asked) and card.root != asked:
        yield f"its model {card.name} is {card.root}, and the study's target is {asked}"
    longest = _given(study, launch).get("max-model-len")
    if isinstance(longest, int) and card.max_model_len not in (None, longest) and longest > 0:
        yield f"its max-model-len is {card.max_model_len}, and the study says {longest}"


def _speculation(drafts: bool | None, tokens: int | None, launch: Launch) -> Iterator[str]:
    config = launch.variant.speculative_config
    if drafts is None:
        return
    if config is None and drafts:
        yield "it has counters of drafted tokens (vllm:spec_decode_…), so it is no baseline"
    if config is not None and not drafts:
        yield (
            "it has no counters of drafted tokens (vllm:spec_decode_…), so it does not speculate"
        )
    stated = (config or {}).get("num_speculative_tokens")
    if drafts and stated is not None and tokens is not None and tokens != stated:
        yield f"it drafts {tokens} tokens at a time, and the study says {stated}"


def _arguments(said: Said, study: Study, launch: Launch) -> Iterator[str]:
    given = _given(study, launch)
    for name, label in _SHOWN.items():
        stated, shown = given.get(name), said.cache.get(label)
        if stated is None or shown is None or _same(stated, shown):
            continue
        yield f"its {name} is {shown}, and the study says {stated}"


def _same(stated: Any, shown: str) -> bool:
    if isinstance(stated, (int, float)) and not isinstance(stated, bool):
        try:
            return abs(float(shown) - stated) < 1e-9
        except ValueError:
            return False
    return str(stated) == shown


def _resolved(found: Resolved, study: Study, launch: Launch) -> Iterator[str]:
    yield from _precision(found, study)
    size = found.tensor_parallel_size
    if size is not None and size != launch.tensor_parallel_size:
        yield f"its tensor parallel size is {size}, and the study says {launch.tensor_parallel_size}"
    config = launch.variant.speculative_config or {}
    stated = config.get("method")
    if stated is not None and found.method is not None and found.method != stated:
        yield f"its speculative method is {found.method}, and the study says {stated}"
    yield from _drafting(found, config)


def _drafting(found: Resolved, config: dict[str, Any]) -> Iterator[str]:
    """Yield a clause for each way in which the engine sizes or verifies drafts otherwise than was
    asked."""
    if not config or found.method is None:
        return
    stated, resolved = table_of(config), table_of({TABLE: found.table})
    if steps_of(stated) != steps_of(resolved):
        yield (
            f"its table of K is {[list(entry) for entry in resolved] or 'none'}, and the study says "
            f"{[list(entry) for entry in stated] or 'none'} (vLLM takes it away beside data "
            "parallelism)"
        )
    verified, asked = found.rejection_sample_method, config.get("rejection_sample_method")
    if verified is not None and asked is not None and verified != asked:
        yield f"it verifies drafts by {verified}, and the study says {asked}"


def _precision(found: Resolved | None, study: Study) -> Iterator[str]:
    stated = study.target.precision
    word = None if found is None else precision_of(found.dtype, found.quantization)
    if stated is not None and word is not None and contradicts(stated, word):
        yield f"its weights are {word}, and the study says {stated} (target.precision)"


def _given(study: Study, launch: Launch) -> dict[str, Any]:
    """Return engine arguments by names with dashes; ``no-…: true`` is the argument said as
    false."""
    both = {**study.target.engine_args, **launch.variant.engine_args}
    named = {name.lstrip("-").replace("_", "-"): value for name, value in both.items()}
    denied = {name.removeprefix("no-"): not value for name, value in named.items()
              if name.startswith("no-") and isinstance(value, bool)}  # fmt: skip
    return named | denied
