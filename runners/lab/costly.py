"""Make the target four times as costly: ``python -m runners.lab.costly FROM TO`` (vLLM's Python).

Layers are added whose output projections are zero: a residual network passes through them unchanged,
at the price of their multiplications. It widens the gap between target and draft to what large
models have. 33 MB, so it is made on the spot and not shipped.
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from runners.lab import models

LAYERS = 24


def main() -> None:
    """Make the costly target, unless it is newer than what it is made from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    made, source = (f / "model.safetensors" for f in (asked.folder, asked.source))
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        costly = with_identity_layers(LlamaForCausalLM.from_pretrained(asked.source), LAYERS)
        models.save(costly, AutoTokenizer.from_pretrained(asked.source), asked.folder)


def with_identity_layers(model: LlamaForCausalLM, layers: int) -> LlamaForCausalLM:
    """Return a model of so many layers with the same output as the given one."""
    shape = LlamaConfig.from_dict(model.config.to_dict() | {"num_hidden_layers": layers})
    grown = LlamaForCausalLM(shape)
    grown.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        for layer in grown.model.layers[model.config.num_hidden_layers :]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return grown


if __name__ == "__main__":
    main()
