"""Write a model of the lab as GGUF: ``python -m runners.lab.to_gguf FROM TO.gguf`` (llama.cpp's Python).

For llama.cpp's server, which reads no safetensors. It covers what the lab trains: a Llama with tied
embeddings and a byte-level BPE tokenizer; other models are converted by llama.cpp's own scripts.
"""

import argparse
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]

_OF_LAYER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
_SHAPE = {
    "context_length": "max_position_embeddings", "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size",
    "head_count": "num_attention_heads", "head_count_kv": "num_key_value_heads",
    "key_length": "head_dim", "value_length": "head_dim", "rope_dimension_count": "head_dim",
    "layer_norm_rms_eps": "rms_norm_eps", "vocab_size": "vocab_size",
}  # fmt: skip
#: Rows of these stand in llama.cpp's order of the rotary embedding, which turns neighbours and not
#: halves.
_TURNED = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}


def main() -> None:
    """Write the file, unless it is newer than what it is made from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    made, source = options.target, options.source / "model.safetensors"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        convert(options.source, made)


def convert(source: Path, target: Path) -> None:
    """Write a model's folder as one GGUF file."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(target, "llama")
    for quantity, key in _SHAPE.items():
        getattr(writer, f"add_{quantity}")(config[key])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    stated = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    words = sorted(stated["model"]["vocab"], key=stated["model"]["vocab"].get)
    special = {token["content"] for token in stated["added_tokens"] if token["special"]}
    kinds = (gguf.TokenType.NORMAL, gguf.TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([kinds[word in special] for word in words])
    writer.add_token_merges([" ".join(pair) for pair in stated["model"]["merges"]])
    (end,) = (words.index(word) for word in special)
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    for name, values in _tensors(source / "model.safetensors", config):
        # Norms stay in single precision: llama.cpp computes with them so.
        writer.add_tensor(name, values if values.ndim == 1 else values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(path: Path, config: dict[str, Any]) -> Iterator[tuple[str, Weights]]:
    # Name and values of each tensor as llama.cpp calls and orders them. The file is in
    # bfloat16, which numpy does not know: 8 bytes of length, a JSON header, the numbers.
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        halves = np.frombuffer(data[start:end], dtype="<u2").astype(np.uint32)
        values = (halves << 16).view(np.float32).reshape(entry["shape"])
        parts = name.removeprefix("model.").removesuffix(".weight").split(".", 2)
        if parts[0] != "layers":
            whole = {"embed_tokens": "token_embd", "norm": "output_norm"}[parts[0]]
            yield f"{whole}.weight", values
            continue
        kind = _OF_LAYER[parts[2]]
        if kind in _TURNED:
            (rows, columns), heads = values.shape, config[_TURNED[kind]]
            turned = values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2)
            values = turned.reshape(rows, columns)
        yield f"blk.{parts[1]}.{kind}.weight", values


if __name__ == "__main__":
    main()
