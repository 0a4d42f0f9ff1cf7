"""What the weights of a model are stored in, in one word, from a configuration."""

#: Words of engines and studies for the same thing.
_SAME = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32",
    "gpt_oss_mxfp4": "mxfp4", "modelopt_fp4": "nvfp4", "fbgemm_fp8": "fp8", "awq_marlin": "awq",
    "gptq_marlin": "gptq",
}  # fmt: skip
_PLAIN = {"bf16", "fp16", "fp32"}
#: Of these, and of plain ones, one is never the other.
_DISTINCT = _PLAIN | {"mxfp4", "nvfp4", "fp8", "awq", "gptq"}


def precision_of(dtype: str | None, quantization: str | None) -> str | None:
    """Return one word for what an engine says of its weights: its quantization, else its dtype."""
    said = quantization or (dtype or "").removeprefix("torch.")
    word = said.lower()
    return _SAME.get(word, word) or None


def contradicts(stated: str, found: str) -> bool | None:
    """Return whether a study's word and an engine's exclude one another; None where nobody can
    tell.

    A bit count (int4, w4a16) can be several formats, so it contradicts only an unquantized model.
    """
    word = _SAME.get(stated.lower(), stated.lower())
    if word == found:
        return False
    if (word in _PLAIN) != (found in _PLAIN):
        return True
    return True if {word, found} <= _DISTINCT else None
