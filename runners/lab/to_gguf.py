"""Write a model of the lab as GGUF: ``python -m runners.lab.to_gguf FROM TO.gguf`` (llama.cpp's Python).

For llama.cpp's server, which reads no safetensors. It covers what the lab trains: a Llama with tied
embeddings and a byte-level BPE tokenizer; other models are converted by llama.cpp's own scripts.
"""

import argparse
import json
import struct
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


def main() -> None:
    """Write the file, unless it is newer than what it is made from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    asked = parser.parse_args()
    made, source = asked.target, asked.source / "model.safetensors"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        convert(asked.source, made)


def convert(source: Path, target: Path) -> None:
    """Write a model's folder as one GGUF file."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(target, "llama")
    _add_shape(writer, config)
    _add_words(writer, source)
    for name, values in _weights(source / "model.safetensors", config):
        # Norms stay in single precision: llama.cpp computes with them so.
        writer.add_tensor(name, values if values.ndim == 1 else values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_shape(writer: Any, config: dict[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def _add_words(writer: Any, source: Path) -> None:
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


def _weights(path: Path, config: dict[str, Any]) -> list[tuple[str, Weights]]:
    """Return name and values of each tensor as llama.cpp calls and orders them."""
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
    found = []
    for name, values in _safetensors(path):
        renamed = _renamed(name)
        kind = renamed.split(".")[-2]
        if kind in heads:
            values = _interleaved(values, config[heads[kind]])
        found.append((renamed, values))
    return found


def _renamed(name: str) -> str:
    parts = name.removeprefix("model.").removesuffix(".weight").split(".", 2)
    if parts[0] == "layers":
        return f"blk.{parts[1]}.{_OF_LAYER[parts[2]]}.weight"
    return {"embed_tokens": "token_embd", "norm": "output_norm"}[parts[0]] + ".weight"


def _interleaved(values: Weights, heads: int) -> Weights:
    """Return rows in the order of llama.cpp's rotary embedding, which turns neighbours and not
    halves."""
    rows, columns = values.shape
    halves = values.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def _safetensors(path: Path) -> list[tuple[str, Weights]]:
    """Return the tensors of a file in bfloat16, which numpy does not know: 8 bytes of length, a
    JSON header, the numbers."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    found = []
    for name, said in header.items():
        if name == "__metadata__":
            continue
        start, end = (8 + length + place for place in said["data_offsets"])
        halves = np.frombuffer(data[start:end], dtype="<u2").astype(np.uint32)
        found.append((name, (halves << 16).view(np.float32).reshape(said["shape"])))
    return found


if __name__ == "__main__":
    main()
