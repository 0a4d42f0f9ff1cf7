"""SGLang: ``sglang serve``; ``/server_info`` tells its version, arguments and speculation.

Its metrics give acceptance as a running average and no counts (``sglang:spec_accept_length``), so
acceptance of one load stays unknown.
"""

from typing import Any

from runners.planning.study import Study, Variant
from runners.planning.vllm_command import PORT, speculative_config
from runners.serving.agreement import Said, json_of, models
from runners.serving.engines.engine import Engine, translated, words
from runners.surroundings.tools import executable

_TITLE = "SGLang"
_METHODS = {
    "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN", "draft_model": "STANDALONE",
    "ngram": "NGRAM", "dflash": "DFLASH",
}  # fmt: skip
#: Keys of a speculative config that have words of their own here.
_SAID = ("method", "model", "revision", "num_speculative_tokens")


def command(study: Study, variant: Variant, size: int) -> list[str]:
    """Return the command line ``sglang serve …`` for one arm; counters are switched on."""
    target = study.target
    named: dict[str, Any] = {
        "model_path": study.located(target.model), "host": "127.0.0.1", "port": PORT,
        "tp_size": size, "revision": target.revision, "served_model_name": target.served_name,
        "tokenizer_path": None if target.tokenizer is None else study.located(target.tokenizer),
        "enable_metrics": True,
    }  # fmt: skip
    given = {**target.engine_args, **variant.engine_args, **_speculation(study, variant)}
    return [executable(study, "sglang"), "serve", *words(named), *words(given)]


def _speculation(study: Study, variant: Variant) -> dict[str, Any]:
    """Return the arguments for an arm's drafts: a chain of K drafts is K steps, and K + 1 tokens to
    verify, since the last accepted one is among them."""
    config = speculative_config(study, variant)
    if config is None:
        return {}
    k, method = config.get("num_speculative_tokens"), str(config.get("method", "draft_model"))
    chain = {} if k is None else {
        "speculative_num_steps": k, "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": k + 1,
    }  # fmt: skip
    return {
        "speculative_algorithm": translated(method, _METHODS, _TITLE),
        "speculative_draft_model_path": config.get("model"),
        "speculative_draft_model_revision": config.get("revision"),
        **chain,
        **{name: value for name, value in config.items() if name not in _SAID},
    }


def said(url: str, metrics: str) -> Said:
    """Return what SGLang says of itself: ``/server_info``, before 0.5.4 ``/get_server_info``."""
    told = json_of(f"{url}/server_info") or json_of(f"{url}/get_server_info")
    info: dict[str, Any] = told if isinstance(told, dict) else {}
    known = "speculative_algorithm" in info
    drafts = info.get("speculative_algorithm") is not None if known else None
    version, steps = info.get("version"), info.get("speculative_num_steps")
    radix = info.get("disable_radix_cache")
    return Said(
        engine="sglang",
        version=version if isinstance(version, str) else None,
        models=models(url),
        drafts=drafts,
        draft_tokens=steps if drafts and isinstance(steps, int) else None,
        cache={"enable_prefix_caching": str(not radix)} if isinstance(radix, bool) else {},
    )


ENGINE: Engine = Engine("sglang", _TITLE, "sglang", command)
