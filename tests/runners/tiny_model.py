"""Make a tiny Llama with random weights: enough to start a real server, too little to say a word.

Run by the Python that vLLM stands in, which has torch and transformers:
``.lab/vllm/bin/python tests/runners/tiny_model.py FOLDER [VOCABULARY]``
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def make(folder: Path, vocabulary: int) -> None:
    """A model folder that ``vllm serve`` takes: 64 wide, 2 layers, byte-level tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    text = [Path(__file__).read_text(encoding="utf-8")]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["<eos>"], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(text, trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>"
    )
    wrapped.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=0, eos_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 512)
