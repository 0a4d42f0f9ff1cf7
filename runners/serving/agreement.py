"""What a server says of itself, held against what the study says of it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from runners.planning.plan import Launch
from runners.planning.study_file import Study
from runners.serving import endpoint
from runners.serving.diagnosis import Diagnosis
from runners.surroundings.models import is_path
from warehouse.contract import TABLE, steps_of, table_of

# --- What a server says of itself, in values; vLLM's words for counters, cache and configuration.


_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_POSITION = re.compile(
    r'^vllm:spec_decode_num_accepted_tokens_per_pos(?:_total)?\{.*position="(\d+)"', re.MULTILINE
)
_DRAFTS = re.compile(r"^vllm:spec_decode_num_drafts(?:_total)?[{ ]", re.MULTILINE)
_CACHE = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)

Value = TypeVar("Value")


@dataclass(frozen=True)
class ServedModel:
    """One model that the server lists. None: the server does not say it."""

    name: str
    root: str | None = None
    max_model_len: int | None = None


@dataclass(frozen=True)
class Resolved:
    """vLLM's configuration as the engine runs with it, after its own defaults. None: unsaid.

    ``whole`` is all that it told, in its own words; ``table`` is K by batch size, None also where
    vLLM took it away, as it does beside data parallelism.
    """

    dtype: str | None = None
    quantization: str | None = None
    reasoning_parser: str | None = None
    tensor_parallel_size: int | None = None
    method: str | None = None
    draft_tokens: int | None = None
    whole: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    table: list[Any] | None = None
    rejection_sample_method: str | None = None
    draft_sample_method: str | None = None
    parallel_drafting: bool | None = None
    adaptive_verification: bool | None = None
    disable_eagle_block_drop: bool | None = None

    def as_json(self) -> dict[str, object]:
        """Return what is known, by name, without the field ``whole``."""
        return {name: value for name, value in vars(self).items()
                if value is not None and name != "whole"}  # fmt: skip


@dataclass(frozen=True)
class ServerFacts:
    """All that a server said of itself. None: it was not said.

    ``drafts``: whether it has counters of drafts; None where its metrics are not vLLM's. ``cache``:
    labels of vLLM's ``cache_config_info``.
    """

    engine: str | None = None
    version: str | None = None
    models: tuple[ServedModel, ...] | None = None
    drafts: bool | None = None
    draft_tokens: int | None = None
    cache: Mapping[str, str] = field(default_factory=dict)
    resolved: Resolved | None = None

    @property
    def prefix_caching(self) -> bool | None:
        """Whether the server keeps prefixes; None where it does not say."""
        return {"True": True, "False": False}.get(self.cache.get("enable_prefix_caching", ""))


def counters(metrics: str) -> tuple[bool | None, int | None]:
    """Return whether the server drafts, by vLLM's ``/metrics``, and how many tokens at most."""
    if "vllm:" not in metrics:
        return None, None
    positions = [int(position) for position in _POSITION.findall(metrics)]
    return bool(_DRAFTS.search(metrics)), max(positions, default=-1) + 1 or None


def cache_labels(metrics: str) -> dict[str, str]:
    """Return the labels of vLLM's ``cache_config_info``; empty where there is none."""
    labels = _CACHE.search(metrics)
    return dict(_LABEL.findall(labels[1])) if labels else {}


def ask_configuration(url: str) -> Resolved | None:
    """Return vLLM's configuration; None where it has no such route (VLLM_SERVER_DEV_MODE opens
    it)."""
    # The first question makes vLLM collect what its machine is, which takes seconds.
    config = json_of(f"{url}/server_info?config_format=json", 60.0).get("vllm_config")
    if not isinstance(config, dict):
        return None

    def stated(part: str, key: str, kind: type[Value]) -> Value | None:
        section = config.get(part)
        return typed(section.get(key), kind) if isinstance(section, dict) else None

    drafting = "speculative_config"
    return Resolved(
        dtype=stated("model_config", "dtype", str),
        quantization=stated("model_config", "quantization", str),
        reasoning_parser=stated("structured_outputs_config", "reasoning_parser", str),
        tensor_parallel_size=stated("parallel_config", "tensor_parallel_size", int),
        method=stated(drafting, "method", str),
        draft_tokens=stated(drafting, "num_speculative_tokens", int),
        whole=config,
        table=stated(drafting, TABLE, list),
        rejection_sample_method=stated(drafting, "rejection_sample_method", str),
        draft_sample_method=stated(drafting, "draft_sample_method", str),
        parallel_drafting=stated(drafting, "parallel_drafting", bool),
        adaptive_verification=stated(drafting, "enable_adaptive_verification", bool),
        disable_eagle_block_drop=stated(drafting, "disable_eagle_block_drop", bool),
    )


def ask_models(url: str) -> tuple[ServedModel, ...] | None:
    """Return the models that ``/v1/models`` lists; None where it does not."""
    cards = json_of(f"{url}/v1/models").get("data")
    if not isinstance(cards, list):
        return None
    return tuple(
        ServedModel(card["id"], typed(card.get("root"), str), typed(card.get("max_model_len"), int))
        for card in cards
        if isinstance(card, dict) and isinstance(card.get("id"), str) and card["id"]
    )


def typed(value: Any, kind: type[Value]) -> Value | None:
    """Return a value of JSON that is of this very kind and no empty text; None for any other."""
    return value if type(value) is kind and value != "" else None


def json_of(url: str, timeout_s: float = 10.0, kind: type[Any] = dict) -> Any:
    """Return the JSON object (or list) at an address; an empty one where there is none."""
    try:
        answer = json.loads(read(url, timeout_s) or "null")
    except ValueError:
        return kind()
    return answer if isinstance(answer, kind) else kind()


def read(url: str, timeout_s: float = 10.0) -> str | None:
    """Return the text at an address; None where there is none."""
    try:
        return endpoint.fetch(url, timeout_s)
    except endpoint.SILENT:
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
#: The cause of a cell whose server is not the one that the study says.
OTHER_SERVER = "other_server"
#: Engine arguments that vLLM's metrics show, and the label that does.
_SHOWN = {
    "kv-cache-dtype": "cache_dtype",
    "block-size": "block_size",
    "gpu-memory-utilization": "gpu_memory_utilization",
    "enable-prefix-caching": "enable_prefix_caching",
}


def served_model(study: Study) -> str:
    """Return the name by which requests ask for the model."""
    return study.target.served_name or study.located(study.target.model)


def precision_of(dtype: str | None, quantization: str | None) -> str | None:
    """Return one word for what an engine says of its weights: its quantization, else its dtype."""
    word = (quantization or (dtype or "").removeprefix("torch.")).lower()
    return _SAME.get(word, word) or None


def contradicts(stated: str, resolved: str) -> bool | None:
    """Return whether a study's word and an engine's exclude one another; None where nobody can
    tell.

    A bit count (int4, w4a16) can be several formats, so it contradicts only an unquantized model.
    """
    word = _SAME.get(stated.lower(), stated.lower())
    if word == resolved:
        return False
    if (word in _PLAIN) != (resolved in _PLAIN):
        return True
    return True if {word, resolved} <= _DISTINCT else None


def contradictions(facts: ServerFacts, study: Study, launch: Launch) -> list[str]:
    """Return one clause for each thing that the server says otherwise than the study; empty: it
    fits."""
    arguments = study.engine_arguments(launch.variant)
    # ``no-…: true`` is the argument said as false.
    arguments |= {name.removeprefix("no-"): not value for name, value in arguments.items()
                  if name.startswith("no-") and isinstance(value, bool)}  # fmt: skip
    clauses = [
        *_model_clauses(facts, study, arguments.get("max-model-len")),
        *_drafting_clauses(facts.drafts, facts.draft_tokens, launch),
    ]
    for name, label in _SHOWN.items():
        stated, shown = arguments.get(name), facts.cache.get(label)
        if stated is not None and shown is not None and not _is_shown_as(stated, shown):
            clauses.append(f"its {name} is {shown}, and the study says {stated}")
    resolved = facts.resolved
    if resolved is None:
        return clauses
    clauses += _precision_clauses(resolved, study)
    size = resolved.tensor_parallel_size
    if size not in (None, launch.tensor_parallel_size):
        clauses.append(
            f"its tensor parallel size is {size}, and the study says {launch.tensor_parallel_size}"
        )
    config = launch.variant.speculative_config or {}
    method = config.get("method")
    if None not in (method, resolved.method) and resolved.method != method:
        clauses.append(f"its speculative method is {resolved.method}, and the study says {method}")
    return [*clauses, *_verification_clauses(resolved, config)]


def wrong_arm(metrics: str, launch: Launch) -> Diagnosis | None:
    """Say why counters cannot be those of this arm: it drafts and should not, or the other way
    round."""
    clause = next(_drafting_clauses(counters(metrics)[0], None, launch), None)
    if clause is None:
        return None
    return Diagnosis(OTHER_SERVER, f"This is not the arm {launch.variant.name}: {clause}.")


def disagreement(resolved: Resolved | None, study: Study, launch: Launch) -> Diagnosis | None:
    """Say why a server that was started here is not what the study says: its precision is another,
    or the engine took back how drafts are sized or verified."""
    if resolved is None:
        return None
    config = launch.variant.speculative_config or {}
    clauses = [*_precision_clauses(resolved, study), *_verification_clauses(resolved, config)]
    if not clauses:
        return None
    return Diagnosis(OTHER_SERVER, f"{clauses[0][:1].upper()}{clauses[0][1:]}.")


def stated_only(facts: ServerFacts, study: Study) -> list[str]:
    """Return the facts of the record that are the study's word alone: the server showed nothing of
    them."""
    resolved = facts.resolved
    unseen = {
        "model": all(card.name != served_model(study) for card in facts.models or ()),
        "speculative_config": facts.drafts is None,
        "precision": precision_is_stated(resolved, study),
        "tensor_parallel_size": resolved is None or resolved.tensor_parallel_size is None,
    }
    return [name for name, is_unseen in unseen.items() if is_unseen]


def precision_is_stated(resolved: Resolved | None, study: Study) -> bool:
    """Return whether the study names a precision that nothing the engine says confirms."""
    stated = study.target.precision
    word = None if resolved is None else precision_of(resolved.dtype, resolved.quantization)
    return stated is not None and (word is None or contradicts(stated, word) is not False)


def _model_clauses(facts: ServerFacts, study: Study, longest: Any) -> Iterator[str]:
    if facts.models is None:
        return
    wanted, target = served_model(study), study.target.model
    card = next((card for card in facts.models if card.name == wanted), None)
    if card is None:
        names = ", ".join(card.name for card in facts.models) or "none"
        yield f"it serves {names}, and the study asks for {wanted} (target.served_name)"
        return
    if card.root and not is_path(card.root) and not is_path(target) and card.root != target:
        yield f"its model {card.name} is {card.root}, and the study's target is {target}"
    if isinstance(longest, int) and card.max_model_len not in (None, longest) and longest > 0:
        yield f"its max-model-len is {card.max_model_len}, and the study says {longest}"


def _drafting_clauses(drafts: bool | None, tokens: int | None, launch: Launch) -> Iterator[str]:
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
    if drafts and None not in (stated, tokens) and tokens != stated:
        yield f"it drafts {tokens} tokens at a time, and the study says {stated}"


def _is_shown_as(stated: Any, shown: str) -> bool:
    if isinstance(stated, (int, float)) and not isinstance(stated, bool):
        try:
            return abs(float(shown) - stated) < 1e-9
        except ValueError:
            return False
    return str(stated) == shown


def _verification_clauses(resolved: Resolved, config: Mapping[str, Any]) -> Iterator[str]:
    # A clause for each way in which the engine sizes or verifies drafts otherwise than was
    # asked.
    if not config or resolved.method is None:
        return
    stated, table = table_of(config), table_of({TABLE: resolved.table})
    if steps_of(stated) != steps_of(table):
        yield (
            f"its table of K is {[list(entry) for entry in table] or 'none'}, and the study says "
            f"{[list(entry) for entry in stated] or 'none'} (vLLM takes it away beside data "
            "parallelism)"
        )
    verified, wanted = resolved.rejection_sample_method, config.get("rejection_sample_method")
    if None not in (verified, wanted) and verified != wanted:
        yield f"it verifies drafts by {verified}, and the study says {wanted}"


def _precision_clauses(resolved: Resolved, study: Study) -> Iterator[str]:
    stated, word = study.target.precision, precision_of(resolved.dtype, resolved.quantization)
    if stated is not None and word is not None and contradicts(stated, word):
        yield f"its weights are {word}, and the study says {stated} (target.precision)"
