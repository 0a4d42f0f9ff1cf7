"""The lab's tokenizer and the shapes of its models. Needs transformers: runs beside vLLM."""

from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 2048
CONTEXT = 512
END = "<|endoftext|>"


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE of 2,048 entries; entry 0 ends a document."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=END, model_max_length=CONTEXT
    )


def target_shape() -> LlamaConfig:
    """Return the shape of the target, 4.7M parameters: hidden 256, 6 layers, 4 heads."""
    return _shape(hidden=256, layers=6, intermediate=640, heads=(4, 2))


def draft_shape() -> LlamaConfig:
    """Return the shape of the draft, 0.45M parameters: hidden 128, one layer, 2 heads."""
    return _shape(hidden=128, layers=1, intermediate=352, heads=(2, 1))


def _shape(hidden: int, layers: int, intermediate: int, heads: tuple[int, int]) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=intermediate,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
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
