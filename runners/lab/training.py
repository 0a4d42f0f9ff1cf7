"""How the lab's models learn: the target from text, the draft from the target's probabilities."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional
from transformers import LlamaForCausalLM

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


def windows(tokens: list[int]) -> torch.Tensor:
    """Cut tokens into rows, each a window and the one token after it."""
    rows = len(tokens) // WINDOW - 1
    flat = torch.tensor(tokens)
    return torch.stack([flat[i * WINDOW : (i + 1) * WINDOW + 1] for i in range(rows)])


def train(model: LlamaForCausalLM, rows: torch.Tensor, loss: Loss, schedule: Schedule) -> float:
    """Train in place. Return the seconds that it took."""
    optimizers = _optimizers(model, schedule.rate)
    falling = [torch.optim.lr_scheduler.LambdaLR(one, schedule.factor) for one in optimizers]
    started = time.monotonic()
    for step, batch in enumerate(_batches(rows, schedule)):
        value = loss(batch)
        model.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one in (*optimizers, *falling):
            one.step()
        if step % 50 == 0:
            spent = time.monotonic() - started
            _log.info("step %d of %d, loss %.3f, %.0f s", step, schedule.steps, value.item(), spent)
    return time.monotonic() - started


def _optimizers(model: LlamaForCausalLM, rate: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the layers' matrices, AdamW for the rest.

    Muon was chosen over AdamW alone because it came further in the few tokens there is time for, in
    short trials on this corpus with one rate each: no careful comparison of the two.
    """
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in named if p.ndim != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def text_loss(model: LlamaForCausalLM) -> Loss:
    """Return the loss of a model on text: the cross entropy of the next token."""

    def loss(batch: torch.Tensor) -> torch.Tensor:
        predicted = logits(model, batch[:, :-1])
        return functional.cross_entropy(predicted.flatten(0, 1), batch[:, 1:].flatten())

    return loss


def distillation_loss(draft: LlamaForCausalLM, target: LlamaForCausalLM) -> Loss:
    """Return the loss of a draft: KL divergence from the target's probabilities, and cross entropy
    to its first choice.

    The second term is what counts at temperature 0: a draft token is accepted if it is the target's
    first choice.
    """

    def loss(batch: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = logits(target, batch[:, :-1]).flatten(0, 1)
        predicted = logits(draft, batch[:, :-1]).flatten(0, 1).log_softmax(-1)
        divergence = functional.kl_div(
            predicted, wanted.log_softmax(-1), reduction="batchmean", log_target=True
        )
        return divergence + functional.nll_loss(predicted, wanted.argmax(-1))

    return loss


def logits(model: LlamaForCausalLM, tokens: torch.Tensor) -> torch.Tensor:
    """Return logits in float32; the multiplications in bf16, which such a CPU does twice as
    fast."""
    with torch.autocast("cpu", torch.bfloat16):
        return model(tokens, use_cache=False).logits.float()


def agreement(draft: LlamaForCausalLM, target: LlamaForCausalLM, rows: torch.Tensor) -> float:
    """Return the share of positions at which draft and target have the same first choice, on given
    text."""
    with torch.no_grad():
        same = logits(draft, rows).argmax(-1) == logits(target, rows).argmax(-1)
    return float(same.float().mean())


def _batches(rows: torch.Tensor, schedule: Schedule) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(schedule.seed)
    order = torch.empty(0, dtype=torch.long)
    for _ in range(schedule.steps):
        while len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(rows), generator=generator)])
        yield rows[order[:BATCH]]
        order = order[BATCH:]
