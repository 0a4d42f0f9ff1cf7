"""Make the lab's models: ``python -m runners.lab.train FOLDER``, by vLLM's Python.

Writes ``target/`` and ``draft/`` (weights, configuration, tokenizer) and ``training.json`` (what went
in, what came out). The text is that of the running Python and of the generators; nothing is downloaded.
"""

import argparse
import json
import logging
import os
import platform
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from runners.lab import models
from runners.lab.corpus import corpus_hash, held_out_text, training_documents
from runners.lab.training import (
    WINDOW,
    Schedule,
    agreement,
    distillation_loss,
    text_loss,
    train,
    windows,
)
from runners.texts.generators import KINDS, Document

TARGET = Schedule(steps=1000, rate=3e-3, seed=1)
DRAFT = Schedule(steps=700, rate=3e-3, seed=2)


def main() -> None:
    """Train, save, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target-steps", type=int, default=TARGET.steps)
    parser.add_argument("--draft-steps", type=int, default=DRAFT.steps)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    made = make(
        asked.folder,
        Schedule(asked.target_steps, TARGET.rate, TARGET.seed),
        Schedule(asked.draft_steps, DRAFT.rate, DRAFT.seed),
    )
    (asked.folder / "training.json").write_text(json.dumps(made, indent=2) + "\n", "utf-8")
    logging.getLogger(__name__).info("%s", json.dumps(made["held_out"]))


def make(folder: Path, for_target: Schedule, for_draft: Schedule) -> dict[str, Any]:
    """Train both models and save them in ``folder``. Return the figures of ``training.json``."""
    documents = training_documents()
    tokenizer = models.train_tokenizer(d.text for d in documents)
    rows = windows(_tokens(tokenizer, documents))
    torch.manual_seed(0)
    target = LlamaForCausalLM(models.target_shape())
    target_s = train(target, rows, text_loss(target), for_target)
    draft = LlamaForCausalLM(models.draft_shape())
    draft_s = train(draft, rows, distillation_loss(draft, target), for_draft)
    held_out = {kind: _measure(target, draft, tokenizer, held_out_text(kind)) for kind in KINDS}
    models.save(target, tokenizer, folder / "target")
    models.save(draft, tokenizer, folder / "draft")
    return {
        "corpus": {
            "documents": len(documents),
            "characters": sum(len(d.text) for d in documents),
            "tokens": rows.numel(),
            "hash": corpus_hash(documents),
        },
        "target": _facts(target, for_target, target_s),
        "draft": _facts(draft, for_draft, draft_s),
        "held_out": held_out,
        "environment": _environment(),
    }


def _tokens(tokenizer: PreTrainedTokenizerFast, documents: list[Document]) -> list[int]:
    encoded = tokenizer([d.text + models.END for d in documents])["input_ids"]
    return [token for one in encoded for token in one]


def _measure(
    target: LlamaForCausalLM, draft: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, text: str
) -> dict[str, float]:
    rows = windows(tokenizer(text)["input_ids"])[:64]
    with torch.no_grad():
        loss = text_loss(target)(rows).item()
    return {
        "characters_per_token": round(len(text) / len(tokenizer(text)["input_ids"]), 3),
        "target_loss": round(loss, 4),
        "agreement": round(agreement(draft, target, rows[:, :WINDOW]), 4),
    }


def _facts(model: LlamaForCausalLM, schedule: Schedule, seconds: float) -> dict[str, Any]:
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": schedule.steps,
        "rate": schedule.rate,
        "seed": schedule.seed,
        "seconds": round(seconds),
    }


def _environment() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    main()
