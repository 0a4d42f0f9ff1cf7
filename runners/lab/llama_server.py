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
    server = xllamacpp.Server(_parameters(parser.parse_args()))
    sys.stderr.write(f"listening on {server.listening_address}\n")
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


def _parameters(options: argparse.Namespace) -> Any:
    made = xllamacpp.CommonParams()
    made.model.path, made.port, made.hostnames = options.model, options.port, [options.host]
    made.endpoint_metrics, made.endpoint_slots = options.metrics, options.slots
    made.n_ctx, made.n_parallel = options.ctx_size or 0, options.parallel or 1
    made.cache_prompt = not options.no_cache_prompt
    # The lab is for processors; and nothing is warmed up that a load does not ask for.
    made.n_gpu_layers, made.warmup = 0, False
    if options.alias:
        made.model_alias = {options.alias}
    if options.threads:
        made.cpuparams.n_threads = options.threads
    if not options.spec_type:
        return made
    drafting = made.speculative
    kind = f"COMMON_SPECULATIVE_TYPE_{_TYPES[options.spec_type]}"
    drafting.types = [getattr(xllamacpp.common_speculative_type, kind)]
    if options.spec_draft_model:
        drafting.draft.mparams.path = options.spec_draft_model
    if options.spec_draft_n_max:
        drafting.draft.n_max = options.spec_draft_n_max
    if options.threads:
        drafting.draft.cpuparams.n_threads = options.threads
    if options.spec_ngram_simple_size_m:
        drafting.ngram_simple.size_m = options.spec_ngram_simple_size_m
    return made


if __name__ == "__main__":
    main()
