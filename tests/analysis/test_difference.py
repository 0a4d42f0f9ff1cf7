"""How two runs differ in what they were."""

from analysis.matching.difference import Change, differences, options


def test_only_configuration_counts_and_json_is_taken_apart() -> None:
    one = {"cell_id": "a", "engine_version": "0.30.0", "completed": 3, "gpu": "H200",
           "server_args": '{"max_num_seqs": 256, "kv": {"dtype": "fp8"}}', "seed": None}  # fmt: skip
    other = {"cell_id": "b", "engine_version": "0.32.0", "completed": 9, "gpu": "H200",
             "server_args": '{"max_num_seqs": 512, "kv": {"dtype": "fp8"}}', "seed": 7}  # fmt: skip

    assert differences(one, other) == (
        Change("engine_version", "0.30.0", "0.32.0"),
        Change("seed", None, 7),
        Change("server_args.max_num_seqs", 256, 512),
    )
    assert differences(one, one) == ()


def test_command_lines_differ_by_option_and_not_by_order() -> None:
    one = {"commands": {"vllm": ["vllm serve m --max-num-seqs 8 --enforce-eager"]}}
    same = {"commands": {"vllm": ["vllm serve m --enforce-eager --max-num-seqs=8"]}}
    other = {"commands": {"vllm": ["vllm", "serve", "m", "--max-num-seqs", "16"]}}

    assert differences(one, same) == ()
    assert [change.sentence for change in differences(one, other)] == [
        "commands.vllm.enforce-eager: True → not stated",
        "commands.vllm.max-num-seqs: 8 → 16",
    ]


def test_a_quoted_value_is_one_value() -> None:
    command = ["vllm", "serve", '--speculative-config \'{"method": "ngram"}\'', "--seed", "-1"]

    assert options(command) == {
        "words": "vllm serve", "speculative-config": '{"method": "ngram"}', "seed": "-1",
    }  # fmt: skip


def test_of_engines_only_what_is_known_of_both_and_not_a_starts_own_differs() -> None:
    before = {"engine_settings": '{"kv_cache_tokens": 625056, "model_runner": "V2"}'}
    after = {
        "engine_settings": '{"kv_cache_tokens": 624960, "model_runner": "V1", "cuda_graphs": "on"}'
    }
    assert [one.sentence for one in differences(before, after)] == [
        "engine_settings.model_runner: V2 → V1"
    ]
    assert differences({"engine_settings": None}, after) == ()
