"""llama.cpp's server: ``llama-server``; its counters of drafts have vLLM's names.

Prompts are kept in each slot, and no route empties them without a folder to save them to: what a
slot remembers of the load before is "kept" in the records unless the study says
``no-cache-prompt: true``.
"""

from typing import Any

from runners.planning.study import Study, Variant
from runners.planning.vllm_command import PORT, speculative_config
from runners.serving.agreement import Said, json_of, models
from runners.serving.engines.engine import Engine, translated, words
from runners.surroundings.tools import executable
from warehouse.errors import RunnerError

_TITLE = "llama.cpp"
_METHODS = {
    "draft_model": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp",
    "dflash": "draft-dflash", "dspark": "draft-dspark", "ngram": "ngram-simple",
}  # fmt: skip
#: Keys of a speculative config that have words of their own here.
_SAID = ("method", "model", "num_speculative_tokens")


def command(study: Study, variant: Variant, size: int) -> list[str]:
    """Return the command line ``llama-server …`` for one arm. Raises RunnerError for tensor
    parallelism, which a study says otherwise here (``split-mode``)."""
    if size != 1:
        raise RunnerError(
            f"llama.cpp has no tensor parallel size ({size} is asked for); write "
            "tensor_parallel_sizes: [1], and split-mode among the engine_args."
        )
    target = study.target
    named: dict[str, Any] = {
        "model": study.located(target.model), "host": "127.0.0.1", "port": PORT,
        "alias": target.served_name, "metrics": True, "slots": True,
    }  # fmt: skip
    given = {**target.engine_args, **variant.engine_args, **_speculation(study, variant)}
    return [executable(study, "llama_server"), *words(named), *words(given)]


def _speculation(study: Study, variant: Variant) -> dict[str, Any]:
    config = speculative_config(study, variant)
    if config is None:
        return {}
    method, k = str(config.get("method", "draft_model")), config.get("num_speculative_tokens")
    longest = "spec_ngram_simple_size_m" if method == "ngram" else "spec_draft_n_max"
    return {
        "spec_type": translated(method, _METHODS, _TITLE),
        "spec_draft_model": config.get("model"),
        longest: k,
        **{name: value for name, value in config.items() if name not in _SAID},
    }


def said(url: str, metrics: str) -> Said:
    """Return what llama-server says of itself: ``/props`` tells its build, ``/slots`` whether they
    draft."""
    props, slots = json_of(f"{url}/props"), json_of(f"{url}/slots")
    build = props.get("build_info") if isinstance(props, dict) else None
    told = slots if isinstance(slots, list) else []
    drafting = [slot["speculative"] for slot in told
                if isinstance(slot, dict) and isinstance(slot.get("speculative"), bool)]  # fmt: skip
    return Said(
        engine="llama.cpp",
        version=build if isinstance(build, str) else None,
        models=models(url),
        drafts=any(drafting) if drafting else None,
    )


ENGINE: Engine = Engine("llama.cpp", _TITLE, "llama_server", command)
