"""Make a small Llama as costly as a large one, with the same answers: ``python -m runners.lab.widen FROM TO --shape 7B``.

By vLLM's Python. What is added computes and changes nothing: the hidden state is repeated until it is
as wide, which leaves the norms' mean as it is; of it what was there before reads the first copy alone and
writes to all; heads and neurons that are added read everything with random weights, and nothing reads them;
so do added layers. Entries added to the vocabulary score the mean of all others, which is never the largest:
with temperature 0 none is ever answered.

Acceptance is then that of the small pair, and a step costs what one of the large pair costs.
"""

import argparse
import logging
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shape:
    """What a step of a Llama costs; ``head_dim`` stays that of the source."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    vocab_size: int


#: Qwen2.5's 7B, 14B and 32B and Llama 3.2's 1B, from their configurations on Hugging Face; a head of 128
#: dimensions is two of the lab's 64, and a draft has its target's vocabulary.
SHAPES = {
    "1B": Shape(2048, 16, 32, 8, 8192, 152_064),
    "7B": Shape(3584, 28, 56, 8, 18_944, 152_064),
    "14B": Shape(5120, 48, 80, 16, 13_824, 152_064),
    "32B": Shape(5120, 64, 80, 16, 27_648, 152_064),
}


def main() -> None:
    """Write the widened model, unless it stands in this shape and is newer than what it is made from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=SHAPES, help="default: that of FROM")
    for name in Shape.__dataclass_fields__:
        parser.add_argument(f"--{name}", type=int, help="another than the shape's")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    shape = SHAPES.get(options.shape) or shape_of(LlamaConfig.from_pretrained(options.source))
    given = {name: getattr(options, name) for name in Shape.__dataclass_fields__}
    shape = replace(shape, **{name: size for name, size in given.items() if size})
    made, source = (place / "config.json" for place in (options.folder, options.source))
    is_newer = made.exists() and made.stat().st_mtime >= source.stat().st_mtime
    if is_newer and shape_of(LlamaConfig.from_pretrained(options.folder)) == shape:
        return
    model = LlamaForCausalLM.from_pretrained(options.source, dtype=torch.bfloat16)
    try:
        grown = widened(model, shape, "cuda" if torch.cuda.is_available() else "cpu")
    except ValueError as error:
        parser.error(str(error))
    partial = options.folder.with_name(f".{options.folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    grown.save_pretrained(partial, max_shard_size="4GB")
    AutoTokenizer.from_pretrained(options.source).save_pretrained(partial)
    shutil.rmtree(options.folder, ignore_errors=True)
    partial.rename(options.folder)
    _log.info("%s: %.2f G parameters", options.folder, grown.num_parameters() / 1e9)


def shape_of(config: LlamaConfig) -> Shape:
    """Return the shape of a model by its configuration."""
    return Shape(**{name: getattr(config, name) for name in Shape.__dataclass_fields__})


def widened(model: LlamaForCausalLM, shape: Shape, device: str = "cpu") -> LlamaForCausalLM:
    """Return a model of this shape with the logits of ``model`` (a Llama with tied embeddings), in its
    precision. Raises ValueError where the shape cannot hold it.

    Net2Net (Chen, Goodfellow, Shlens 2016) widens by copies, too; there all copies are read, here one.
    """
    config, weights, own = model.config, model.state_dict(), shape_of(model.config)
    width, dim, heads = shape.hidden_size, config.head_dim, own.num_key_value_heads
    group, wide_group = (s.num_attention_heads // s.num_key_value_heads for s in (own, shape))
    if (
        width % own.hidden_size
        or width % shape.num_attention_heads
        or shape.num_attention_heads % shape.num_key_value_heads
    ):
        raise ValueError(
            f"A width must be a multiple of {own.hidden_size} and of the heads, and these of the key heads: "
            "name another shape."
        )
    smaller = [name for name, size in asdict(shape).items() if size < getattr(own, name)]
    if smaller or wide_group < group:
        raise ValueError(
            f"The shape is smaller than the model ({', '.join(smaller) or 'heads that share a key'}): "
            "name a larger one."
        )
    copies, dtype = width // own.hidden_size, model.dtype
    generator = torch.Generator(device).manual_seed(0)

    def rows(places: Iterable[int]) -> torch.Tensor:
        return torch.cat([torch.arange(at * dim, (at + 1) * dim) for at in places])

    # A query head stays with the key head that it shares.
    queries = rows(key * wide_group + at for key in range(heads) for at in range(group))
    keys, neurons = rows(range(heads)), torch.arange(own.intermediate_size)
    size_q, size_kv = shape.num_attention_heads * dim, shape.num_key_value_heads * dim
    read = {
        "self_attn.q_proj": (size_q, queries),
        "self_attn.k_proj": (size_kv, keys),
        "self_attn.v_proj": (size_kv, keys),
        "mlp.gate_proj": (shape.intermediate_size, neurons),
        "mlp.up_proj": (shape.intermediate_size, neurons),
    }
    written = {
        "self_attn.o_proj": (size_q, queries),
        "mlp.down_proj": (shape.intermediate_size, neurons),
    }
    made = {}
    for layer in range(shape.num_hidden_layers):
        is_new = layer >= own.num_hidden_layers
        before = f"model.layers.{layer}."
        for name, (size, places) in read.items():
            noise = torch.randn(size, width, generator=generator, device=device, dtype=dtype) * 0.02
            made[f"{before}{name}.weight"] = noise = noise.cpu()
            if not is_new:
                noise[places] = 0
                noise[places, : own.hidden_size] = weights[f"{before}{name}.weight"]
        for name, (size, places) in written.items():
            made[f"{before}{name}.weight"] = out = torch.zeros(width, size, dtype=dtype)
            if not is_new:
                out[:, places] = weights[f"{before}{name}.weight"].repeat(copies, 1)
        for name in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            ones = torch.ones(width, dtype=dtype)
            made[before + name] = ones if is_new else weights[before + name].repeat(copies)
    # The head reads the first copy alone, like all that was there before.
    made["model.norm.weight"] = torch.zeros(width, dtype=dtype)
    made["model.norm.weight"][: own.hidden_size] = weights["model.norm.weight"]
    table = weights["model.embed_tokens.weight"]
    added = table.float().mean(0, keepdim=True).to(dtype).expand(shape.vocab_size - len(table), -1)
    made["model.embed_tokens.weight"] = torch.cat([table, added]).repeat(1, copies)
    made["lm_head.weight"] = made["model.embed_tokens.weight"]
    with torch.device("meta"):
        grown = LlamaForCausalLM(LlamaConfig.from_dict(config.to_dict() | asdict(shape)))
    grown.load_state_dict(made, assign=True)
    grown.tie_weights()
    return grown


if __name__ == "__main__":
    main()
