"""What a pair carries because of both its cells: the draft's memory, the prefix cache."""

import pandas as pd

from analysis.flags.lints_across import pair_flags
from warehouse.rows import Flag

NOTHING = pd.DataFrame(columns=["speculative_id", "metric", "means", "means_s"])


def flags_of(
    also: tuple[tuple[str, str, float, float], ...] = (), **values: tuple[float, float]
) -> tuple[Flag, ...]:
    """The flags of one pair with these means, the baseline's first; ``also``: other statistics."""
    pairs = pd.DataFrame([{"baseline_id": "b", "speculative_id": "s", "flags": ()}])
    long = pd.DataFrame(
        [
            *(("s", *line) for line in also),
            *(("s", metric, "mean", *both) for metric, both in values.items()),
        ],
        columns=["speculative_id", "metric", "statistic", "baseline", "speculative"],
    )
    return pair_flags(pairs, long, NOTHING, None)[0]


def test_the_memory_of_a_draft_is_told_in_requests_that_no_longer_fit() -> None:
    (flag,) = flags_of(
        kv_cache_tokens=(90_000.0, 60_000.0), prompt_tokens=(200.0, 200.0),
        output_tokens=(100.0, 101.0),
    )  # fmt: skip
    assert flag.name == "less_cache"
    assert "200 fit at once instead of 300" in flag.sentence


def test_without_the_lengths_of_requests_the_tokens_alone_are_told() -> None:
    (flag,) = flags_of(kv_cache_tokens=(90_000.0, 60_000.0))
    assert flag.sentence.endswith("since the draft takes memory.")


def test_another_share_of_prefix_hits_is_a_doubt_of_the_pair() -> None:
    assert [flag.name for flag in flags_of(prefix_cache_hit_rate=(0.4, 0.1))] == [
        "prefix_hits_differ"
    ]
    assert flags_of(prefix_cache_hit_rate=(0.4, 0.39), kv_cache_tokens=(5.0, 5.0)) == ()


def test_a_summary_without_a_median_is_judged_by_its_mean_output() -> None:
    (flag,) = flags_of(output_tokens=(100.0, 106.0))
    assert flag.name == "output_lengths_differ"
    assert flag.sentence == "Mean outputs are 100 and 106 tokens long, more than 5 % apart."


def test_an_equal_median_hides_no_tail_of_the_outputs() -> None:
    median = ("output_tokens", "p50", 261.5, 255.5)
    (flag,) = flags_of((median,), output_tokens=(258.0, 226.0))
    assert flag.sentence == "Mean outputs are 258 and 226 tokens long, more than 5 % apart."
    (flag,) = flags_of((median, ("output_tokens", "p05", 219.0, 1.0)))
    assert flag.sentence == (
        "The shortest outputs (P5) are 219 and 1 tokens long, more than 50 % apart."
    )
    assert flags_of((median, ("output_tokens", "p05", 219.0, 200.0))) == ()


def test_prompts_of_unlike_length_are_a_doubt_of_the_pair() -> None:
    assert flags_of(prompt_tokens=(980.0, 1000.0)) == ()
    (flag,) = flags_of(prompt_tokens=(980.0, 122.0))
    assert flag.name == "prompt_lengths_differ"
    assert flag.sentence == "Mean prompts are 980 and 122 tokens long, more than 5 % apart."
