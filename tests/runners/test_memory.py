"""Sizes from config.json against published figures, and the files of a model where they lie."""

import json
from pathlib import Path
from typing import Any

import pytest

from runners.surroundings import models
from runners.surroundings.models import (
    GIB,
    ModelFiles,
    gib,
    memory_estimate,
    token_count,
)


def gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    """The shape of OpenAI's gpt-oss models, as their config.json says it."""
    return {
        "hidden_size": 2880, "num_hidden_layers": layers, "vocab_size": 201088,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
        "num_local_experts": experts, "intermediate_size": 2880, "tie_word_embeddings": False,
        "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
        "max_position_embeddings": 131072,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head", "model.embed_tokens"],
        },
    }  # fmt: skip


LLAMA_8B = {
    "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128256, "torch_dtype": "bfloat16",
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "max_position_embeddings": 131072, "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_30B_A3B = {
    "hidden_size": 2048, "num_hidden_layers": 48, "vocab_size": 151936, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144,
    "num_experts": 128, "moe_intermediate_size": 768, "mlp_only_layers": [],
    "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_V3 = {
    "hidden_size": 7168, "num_hidden_layers": 61, "vocab_size": 129280, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "first_k_dense_replace": 3,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (gpt_oss(36, 128), 116.8),
        (gpt_oss(24, 32), 20.9),
        (LLAMA_8B, 8.03),
        (QWEN3_30B_A3B, 30.5),
        (DEEPSEEK_V3, 671.0),
    ],
)
def test_parameters_are_those_that_the_models_are_published_with(
    config: dict[str, Any], billions: float
) -> None:
    counted = models.parameters(config)
    assert counted is not None
    assert sum(counted.values()) / 1e9 == pytest.approx(billions, rel=2e-3)


@pytest.mark.parametrize(
    ("config", "gibibytes"), [(gpt_oss(36, 128), 60.8), (gpt_oss(24, 32), 12.8), (LLAMA_8B, 14.96)]
)
def test_weights_are_as_large_as_the_published_checkpoints(
    config: dict[str, Any], gibibytes: float
) -> None:
    bytes_ = models.weight_bytes(config)
    assert bytes_ is not None
    assert bytes_ / GIB == pytest.approx(gibibytes, rel=5e-3)


@pytest.mark.parametrize(
    ("quantization", "bytes_a_weight"),
    [
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "awq", "bits": 4}, 4.25 / 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5 / 8),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}}, 1),
    ],
)  # fmt: skip
def test_quantization_spares_the_embeddings(
    quantization: dict[str, Any], bytes_a_weight: float
) -> None:
    counted = models.parameters(LLAMA_8B)
    assert counted is not None
    expected = (
        counted["embedding"] * 2 + (sum(counted.values()) - counted["embedding"]) * bytes_a_weight
    )
    assert models.weight_bytes(LLAMA_8B | {"quantization_config": quantization}) == round(expected)


def test_the_cache_of_a_token_is_k_and_v_of_every_layer() -> None:
    shape = models.cache_shape(LLAMA_8B, 1, "auto")
    assert shape is not None
    # 32 layers x 2 x 8 heads x 128 x 2 bytes = 131,072 bytes a token
    assert shape.bytes_of(1000) == 131_072_000


def test_an_fp8_cache_takes_half() -> None:
    shape = models.cache_shape(LLAMA_8B, 1, "fp8_e4m3")
    assert shape is not None
    assert shape.bytes_of(1000) == 65_536_000


def test_gpus_share_the_kv_heads_until_each_has_one() -> None:
    sizes = [models.cache_shape(LLAMA_8B, tp, "auto") for tp in (1, 4, 8, 16)]
    assert [s and s.bytes_per_token_and_layer for s in sizes] == [4096, 1024, 512, 512]


def test_a_window_bounds_what_its_layers_keep() -> None:
    shape = models.cache_shape(gpt_oss(36, 128), 1, "auto")
    assert shape is not None
    # 2 x 8 x 64 x 2 = 2,048 bytes; 18 layers keep 1,000 tokens and 18 keep 128
    assert shape.bytes_of(1000) == 2048 * (18 * 1000 + 18 * 128)


def test_latent_attention_keeps_one_latent_on_every_gpu() -> None:
    shape = models.cache_shape(DEEPSEEK_V3, 8, "auto")
    assert shape is not None
    assert shape.bytes_per_token_and_layer == (512 + 64) * 2


def test_the_language_part_of_a_model_that_sees_is_what_counts() -> None:
    seeing = {"text_config": LLAMA_8B, "vision_config": {"hidden_size": 1}}
    assert models.parameters(seeing) == models.parameters(LLAMA_8B)


def test_a_configuration_without_sizes_gives_no_figure() -> None:
    assert models.parameters({"model_type": "x"}) is None
    assert models.cache_shape({"model_type": "x"}, 1, "auto") is None


def model(tmp_path: Path, name: str, config: dict[str, Any], weights: int | None) -> ModelFiles:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if weights is not None:
        (folder / "model.safetensors").write_bytes(b"\0" * weights)
    return models.find(str(folder), None, {})


def test_weights_are_split_over_the_gpus_and_the_draft_is_added(tmp_path: Path) -> None:
    target = model(tmp_path, "target", LLAMA_8B, 8000)
    draft = model(tmp_path, "draft", LLAMA_8B | {"num_hidden_layers": 1}, 400)
    found = memory_estimate(target, draft, 2)
    assert (found.target_bytes, found.draft_bytes, found.exact) == (4000, 200, True)
    # 33 layers at half of 4,096 bytes each
    assert found.cache_bytes(10) == 33 * 2048 * 10


def test_a_pipeline_splits_weights_and_layers(tmp_path: Path) -> None:
    target = model(tmp_path, "target", LLAMA_8B, 8000)
    found = memory_estimate(target, None, 2, {"pipeline_parallel_size": 4})
    # 32 layers over 4 stages, 4,096 bytes a token and layer over 2 GPUs
    assert (found.target_bytes, found.cache_bytes(10)) == (1000, 8 * 2048 * 10)


def test_a_room_of_the_cache_holds_so_many_sequences(tmp_path: Path) -> None:
    found = memory_estimate(model(tmp_path, "target", LLAMA_8B, 1000), None)
    assert found.sequences_in(131_072 * 100, tokens=10) == 10
    assert found.sequences_in(-5, tokens=10) == 0


def test_sizes_without_weight_files_are_computed_and_say_so(tmp_path: Path) -> None:
    found = memory_estimate(model(tmp_path, "target", LLAMA_8B, None), None)
    assert (found.exact, found.target_bytes) == (False, models.weight_bytes(LLAMA_8B))


def test_mtp_layers_cache_as_one_more_layer_of_the_target(tmp_path: Path) -> None:
    drafting = {"method": "mtp", "num_speculative_tokens": 1}
    found = memory_estimate(model(tmp_path, "target", LLAMA_8B, 1000), None, 1, {}, drafting)
    assert (found.draft_bytes, found.cache_bytes(1)) == (0, 33 * 4096)


def test_engine_arguments_count_however_they_are_spelt(tmp_path: Path) -> None:
    target = model(tmp_path, "target", LLAMA_8B, 1000)
    found = memory_estimate(target, None, 1, {"--max_model_len": "8k", "kv-cache-dtype": "fp8"})
    # 32 layers, each value one byte instead of two
    assert (found.max_model_len, found.cache_bytes(10)) == (8000, 32 * 2048 * 10)


@pytest.mark.parametrize(
    ("said", "number"), [(8192, 8192), ("2K", 2048), ("1.5k", 1500), ("auto", None), (None, None)]
)
def test_tokens_are_read_as_vllm_reads_them(said: Any, number: int | None) -> None:
    assert token_count(said) == number


def test_bytes_are_said_in_a_readers_unit() -> None:
    assert (gib(60.7 * GIB), gib(9 << 20)) == ("60.7 GiB", "9 MiB")


def test_a_hub_model_is_found_in_the_cache_with_its_commit(tmp_path: Path) -> None:
    commit = "0123456789abcdef"
    repository = tmp_path / "hub" / "models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    for revision in (None, "main", commit):
        found = models.find("org/name", revision, {"HF_HOME": str(tmp_path)})
        assert (found.origin, found.revision, found.folder) == ("cache", commit, snapshot)


def test_a_model_that_is_nowhere_says_where_it_is_missing(tmp_path: Path) -> None:
    found = models.find("org/name", None, {"HF_HOME": str(tmp_path)})
    assert (found.origin, found.folder) == ("nowhere", None)
    assert found.reason == "org/name is not in the cache of this machine"


def test_a_cut_off_download_has_no_size(tmp_path: Path) -> None:
    found = model(tmp_path, "target", LLAMA_8B, 1000)
    assert found.weight_bytes == 1000
    assert found.folder is not None
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (found.folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert models.find(found.model, None, {}).weight_bytes is None


def test_the_revision_of_a_folder_changes_with_its_content_and_not_with_its_place(
    tmp_path: Path,
) -> None:
    first = model(tmp_path, "first", LLAMA_8B, 3 << 20)
    same = model(tmp_path, "second", LLAMA_8B, 3 << 20)
    assert first.revision == same.revision
    assert (first.revision or "").startswith("local:")
    assert same.folder is not None
    weights = same.folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    assert models.find(same.model, None, {}).revision != first.revision


LAB_MODELS = Path(__file__).parents[2] / "studies" / "lab-models"


@pytest.mark.parametrize(("draft", "sequences"), [(None, 682), ("draft", 630)])
def test_the_cache_holds_what_vllm_says_that_it_holds(draft: str | None, sequences: int) -> None:
    """vLLM 0.32 with these models, 1 GiB of cache and 512 tokens logged 682.50x and 630.00x."""
    target = models.find(str(LAB_MODELS / "target"), None, {})
    drafting = None if draft is None else models.find(str(LAB_MODELS / draft), None, {})
    found = memory_estimate(target, drafting, 1, {"max-model-len": 512})
    assert found.sequences_in(GIB, tokens=512) == sequences
