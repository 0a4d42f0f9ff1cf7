"""Make the lab's models: ``python -m runners.lab.train FOLDER``, by vLLM's Python.

Writes ``target/`` and ``draft/`` (weights, configuration, tokenizer) and ``training.json`` (what went
in, what came out). The text is that of the running Python and of the generators; nothing is downloaded.
The target learns from text, the draft from the target's probabilities.
"""

import argparse
import json
import logging
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from torch.nn import functional
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from runners.texts.generators import KINDS, corpus_hash, held_out_text, training_documents

VOCABULARY = 2048
CONTEXT = 512
END = "<|endoftext|>"
WINDOW = 256
BATCH = 8
_log = logging.getLogger(__name__)

Loss = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a model learns: steps of 2,048 tokens; the rate rises for 5 % of them
    and falls along a cosine."""

    steps: int
    rate: float
    seed: int

    def factor(self, step: int) -> float:
        """Return the share of the rate that applies at a step."""
        rise = max(1, self.steps // 20)
        if step < rise:
            return (step + 1) / rise
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - rise) / (self.steps - rise)))


TARGET = Schedule(steps=1000, rate=3e-3, seed=1)
DRAFT = Schedule(steps=700, rate=3e-3, seed=2)


def main() -> None:
    """Train, save, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target-steps", type=int, default=TARGET.steps)
    parser.add_argument("--draft-steps", type=int, default=DRAFT.steps)
    options = parser.parse_args()
    folder = options.folder
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    figures = make(
        folder,
        Schedule(options.target_steps, TARGET.rate, TARGET.seed),
        Schedule(options.draft_steps, DRAFT.rate, DRAFT.seed),
    )
    (folder / "training.json").write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    _log.info("%s", json.dumps(figures["held_out"]))


def make(folder: Path, for_target: Schedule, for_draft: Schedule) -> dict[str, Any]:
    """Train both models and save them in ``folder``. Return the figures of ``training.json``."""
    documents = training_documents()
    tokenizer = train_tokenizer(d.text for d in documents)
    encoded = tokenizer([d.text + END for d in documents])["input_ids"]
    rows = windows([token for tokens in encoded for token in tokens])
    torch.manual_seed(0)
    target = LlamaForCausalLM(_shape(hidden=256, layers=6, intermediate=640, heads=4))
    target_s = train(target, rows, partial(text_loss, target), for_target)
    draft = LlamaForCausalLM(_shape(hidden=128, layers=1, intermediate=352, heads=2))
    draft_s = train(draft, rows, partial(distillation_loss, draft, target), for_draft)
    held_out = {kind: _measure(target, draft, tokenizer, held_out_text(kind)) for kind in KINDS}
    save(target, tokenizer, folder / "target")
    save(draft, tokenizer, folder / "draft")
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
        "environment": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
    }


def train_tokenizer(texts: Iterator[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE of 2,048 entries; entry 0 ends a document."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=END, model_max_length=CONTEXT
    )


def _shape(hidden: int, layers: int, intermediate: int, heads: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write weights in bf16, configuration and tokenizer: a folder that vLLM serves."""
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def windows(tokens: list[int]) -> torch.Tensor:
    """Cut tokens into rows, each a window and the one token after it."""
    rows = len(tokens) // WINDOW - 1
    flat = torch.tensor(tokens)
    return torch.stack([flat[i * WINDOW : (i + 1) * WINDOW + 1] for i in range(rows)])


def train(model: LlamaForCausalLM, rows: torch.Tensor, loss: Loss, schedule: Schedule) -> float:
    """Train in place. Return the seconds that it took.
    Muon for the layers' matrices, AdamW for the rest: Muon was chosen over AdamW alone because it
    came further in the few tokens there is time for, in short trials on this corpus with one rate
    each: no careful comparison of the two.
    """
    matrices: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        matrix = parameter.ndim == 2 and "embed" not in name
        (matrices if matrix else rest).append(parameter)
    rate = schedule.rate
    optimizers = [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    falling = [torch.optim.lr_scheduler.LambdaLR(each, schedule.factor) for each in optimizers]
    started = time.monotonic()
    for step, batch in enumerate(_batches(rows, schedule)):
        value = loss(batch)
        model.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in (*optimizers, *falling):
            each.step()
        if step % 50 == 0:
            spent = time.monotonic() - started
            _log.info("step %d of %d, loss %.3f, %.0f s", step, schedule.steps, value.item(), spent)
    return time.monotonic() - started


def _batches(rows: torch.Tensor, schedule: Schedule) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(schedule.seed)
    order = torch.empty(0, dtype=torch.long)
    for _ in range(schedule.steps):
        while len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(rows), generator=generator)])
        yield rows[order[:BATCH]]
        order = order[BATCH:]


def text_loss(model: LlamaForCausalLM, batch: torch.Tensor) -> torch.Tensor:
    """Return the loss of a model on text: the cross entropy of the next token."""
    predicted = logits(model, batch[:, :-1])
    return functional.cross_entropy(predicted.flatten(0, 1), batch[:, 1:].flatten())


def distillation_loss(
    draft: LlamaForCausalLM, target: LlamaForCausalLM, batch: torch.Tensor
) -> torch.Tensor:
    """Return the loss of a draft: KL divergence from the target's probabilities, and cross entropy
    to its first choice.

    The second term is what counts at temperature 0: a draft token is accepted if it is the target's
    first choice."""
    with torch.no_grad():
        wanted = logits(target, batch[:, :-1]).flatten(0, 1)
    predicted = logits(draft, batch[:, :-1]).flatten(0, 1).log_softmax(-1)
    divergence = functional.kl_div(
        predicted, wanted.log_softmax(-1), reduction="batchmean", log_target=True
    )
    return divergence + functional.nll_loss(predicted, wanted.argmax(-1))


def logits(model: LlamaForCausalLM, tokens: torch.Tensor) -> torch.Tensor:
    """Return logits in float32; the multiplications in bf16, which such a CPU does twice as
    fast."""
    with torch.autocast("cpu", torch.bfloat16):
        return model(tokens, use_cache=False).logits.float()


def _measure(
    target: LlamaForCausalLM, draft: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, text: str
) -> dict[str, float]:
    # What came out on held-out text; ``agreement``: the share of positions at which draft and
    # target have the same first choice.
    tokens = tokenizer(text)["input_ids"]
    rows = windows(tokens)[:64]
    with torch.no_grad():
        loss = text_loss(target, rows).item()
        chosen = [logits(model, rows[:, :WINDOW]).argmax(-1) for model in (draft, target)]
    return {
        "characters_per_token": round(len(text) / len(tokens), 3),
        "target_loss": round(loss, 4),
        "agreement": round(float((chosen[0] == chosen[1]).float().mean()), 4),
    }


def _facts(model: LlamaForCausalLM, schedule: Schedule, seconds: float) -> dict[str, Any]:
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": schedule.steps,
        "rate": schedule.rate,
        "seed": schedule.seed,
        "seconds": round(seconds),
    }


if __name__ == "__main__":
    main()
