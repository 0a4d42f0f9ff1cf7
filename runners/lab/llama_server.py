"""llama.cpp's server out of the package ``xllamacpp``, by the words of ``llama-server`` that it needs.

The package holds llama.cpp's own server without the program around it; ready-made programs are built
for one kind of processor and die on others. ``.lab/llama/bin/llama-server`` starts this.
"""

import argparse
import signal
import sys
from typing import Any

import xllamacpp

#: The ways of drafting that the lab uses.
_TYPES = {"draft-simple": "DRAFT_SIMPLE", "ngram-simple": "NGRAM_SIMPLE", "none": "NONE"}


def main() -> None:
    """Serve until somebody ends it."""
    asked = _options(sys.argv[1:])
    server = xllamacpp.Server(_parameters(asked))
    sys.stderr.write(f"listening on {server.listening_address}\n")
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    version = f"version: {xllamacpp.__version__.rpartition('.')[2]}"
    parser.add_argument("--version", action="version", version=version)
    for name in ("model", "host", "alias", "spec-type", "spec-draft-model"):
        parser.add_argument(f"--{name}")
    for name in ("port", "ctx-size", "parallel", "threads", "spec-draft-n-max",
                 "spec-ngram-simple-size-m"):  # fmt: skip
        parser.add_argument(f"--{name}", type=int)
    for name in ("metrics", "slots", "no-cache-prompt"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args(argv)


def _parameters(asked: argparse.Namespace) -> Any:
    made = xllamacpp.CommonParams()
    made.model.path, made.port, made.hostnames = asked.model, asked.port, [asked.host]
    made.endpoint_metrics, made.endpoint_slots = asked.metrics, asked.slots
    made.n_ctx, made.n_parallel = asked.ctx_size or 0, asked.parallel or 1
    made.cache_prompt = not asked.no_cache_prompt
    # The lab is for processors; and nothing is warmed up that a load does not ask for.
    made.n_gpu_layers, made.warmup = 0, False
    if asked.alias:
        made.model_alias = {asked.alias}
    if asked.threads:
        made.cpuparams.n_threads = asked.threads
    if asked.spec_type:
        _draft(made.speculative, asked)
    return made


def _draft(speculative: Any, asked: argparse.Namespace) -> None:
    kind = f"COMMON_SPECULATIVE_TYPE_{_TYPES[asked.spec_type]}"
    speculative.types = [getattr(xllamacpp.common_speculative_type, kind)]
    if asked.spec_draft_model:
        speculative.draft.mparams.path = asked.spec_draft_model
    if asked.spec_draft_n_max:
        speculative.draft.n_max = asked.spec_draft_n_max
    if asked.threads:
        speculative.draft.cpuparams.n_threads = asked.threads
    if asked.spec_ngram_simple_size_m:
        speculative.ngram_simple.size_m = asked.spec_ngram_simple_size_m


if __name__ == "__main__":
    main()
