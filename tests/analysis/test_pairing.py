"""What pairs, what does not, and what each cell without a partner is told."""

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.matching.fields import MATCH_FIELDS, UNKNOWN_MATCHES
from analysis.matching.pairing import Matching, match
from warehouse.errors import UnknownKey

Row = Callable[..., dict[str, Any]]

#: A value unlike the one in the fixture, for each field.
OTHER: dict[str, Any] = {
    **dict.fromkeys(MATCH_FIELDS, "other"),
    "gpu_count": 2, "tensor_parallel_size": 2, "prefix_caching": False, "temperature": 0.6,
    "top_p": 0.9, "seed": 8, "max_tokens": 256, "ignore_eos": True, "load": {"concurrency": 16},
}  # fmt: skip
#: Where unknown on one side is a difference: what nobody should have to guess.
STRICT = [f for f in MATCH_FIELDS if f not in UNKNOWN_MATCHES]


def changed(field: str, value: Any) -> dict[str, Any]:
    """A field of a row with this value; the load is made of several."""
    if field != "load":
        return {field: value}
    return value or {"concurrency": None, "load_profile": None}


def at(hour: int) -> pd.Timestamp:
    return pd.Timestamp("2026-01-02", tz="UTC") + pd.Timedelta(hours=hour)


def matched(*rows: dict[str, Any], allow: tuple[str, ...] = ()) -> Matching:
    return match(pd.DataFrame(list(rows)), allow)


def pairs(found: Matching) -> list[tuple[str, str]]:
    return list(zip(found.pairs["baseline_id"], found.pairs["speculative_id"], strict=True))


def names(found: Matching, at_row: int = 0) -> list[str]:
    return [flag.name for flag in found.pairs["flags"][at_row]]


def reasons(found: Matching) -> dict[str, str]:
    return dict(zip(found.unmatched["cell_id"], found.unmatched["reason"], strict=True))


def test_cells_equal_in_everything_but_the_speculation_pair_without_a_flag(row: Row) -> None:
    found = matched(row("b"), row("s", "eagle3"))
    assert pairs(found) == [("b", "s")]
    assert found.pairs["allowed"][0] == ()
    assert found.pairs["flags"][0] == ()
    assert found.unmatched.empty


def test_two_arms_share_a_baseline(row: Row) -> None:
    found = matched(row("b"), row("s", "eagle3"), row("t", "ngram"))
    assert pairs(found) == [("b", "s"), ("b", "t")]


@pytest.mark.parametrize("field", MATCH_FIELDS)
def test_each_difference_is_named_with_both_values(row: Row, field: str) -> None:
    baseline, other = row("b"), row("s", "eagle3", **changed(field, OTHER[field]))
    found = matched(baseline, other)
    here, there = str(baseline.get(field)).removesuffix(".0"), str(OTHER[field])
    if field == "load":
        here, there = "8 at once", "16 at once"
    said = reasons(found)
    assert pairs(found) == []
    way = f": compare all the same with --allow {field}"
    # Whoever compares these asks two questions at once.
    way = "" if field in ("model", "dataset", "load", "evidence") else way
    assert said["s"] == (
        f"nearest baseline b differs: {MATCH_FIELDS[field]} is {there} here and {here} there{way}"
    )
    assert said["b"] == (
        f"nearest speculative s differs: {MATCH_FIELDS[field]} is {here} here and {there} there{way}"
    )


@pytest.mark.parametrize("field", MATCH_FIELDS)
def test_an_allowed_difference_pairs_and_stays_marked(row: Row, field: str) -> None:
    other = row("s", "eagle3", **changed(field, OTHER[field]))
    found = matched(row("b"), other, allow=(field,))
    assert pairs(found) == [("b", "s")]
    assert found.pairs["allowed"][0] == (field,)
    assert names(found) == []


@pytest.mark.parametrize("field", MATCH_FIELDS)
def test_unknown_against_unknown_pairs_as_unverified(row: Row, field: str) -> None:
    both = {"temperature": 0.6} | changed(field, None)
    found = matched(row("b", **both), row("s", "eagle3", **both))
    assert pairs(found) == [("b", "s")]
    assert names(found) == ["unverified"]
    assert found.pairs["flags"][0][0].sentence.endswith(f": {MATCH_FIELDS[field]}.")


#: What a baseline runs with today, and what an arm has to run with.
TODAY = '{"max_model_len": 262144, "max_num_seqs": 256, "gpu_memory_utilization": 0.9}'
ARM = '{"max-model-len": "131072", "max-num-seqs": 256, "gpu-memory-utilization": "0.9", "async-scheduling": false}'


@pytest.mark.parametrize("today", [TODAY, TODAY.replace("262144", "131072")])
def test_one_argument_is_allowed_alone_and_the_rest_must_agree(row: Row, today: str) -> None:
    rows = row("b", server_args=today), row("s", "eagle3", server_args=ARM)
    first = reasons(matched(*rows))["s"]
    assert "server_args.async-scheduling is false here and not stated there" in first
    one = ("server_args.async_scheduling",)
    if today == TODAY:
        told = reasons(matched(*rows, allow=one))["s"]
        assert told == (
            "nearest baseline b differs: server_args.max-model-len is 131072 here and 262144 there: "
            "compare all the same with --allow server_args.async-scheduling "
            "--allow server_args.max-model-len"
        )
        one = ("server_args.async-scheduling", "server_args.max-model-len")
    found = matched(*rows, allow=one)
    assert pairs(found) == [("b", "s")]
    assert found.pairs["allowed"][0] == tuple(
        name.replace("_", "-").replace("server-", "server_") for name in one
    )


def test_an_argument_of_one_arm_is_refused_with_its_way_out_where_the_other_says_nothing(
    row: Row,
) -> None:
    rows = row("b", server_args=None), row("s", "eagle3", server_args='{"async-scheduling": false}')
    assert reasons(matched(*rows))["s"] == (
        "nearest baseline b differs: server_args.async-scheduling is false here and unknown there: "
        "compare all the same with --allow server_args.async-scheduling"
    )
    assert pairs(matched(*rows, allow=("server_args.async-scheduling",))) == [("b", "s")]
    assert pairs(matched(*rows, allow=("server_args",))) == [("b", "s")]


@pytest.mark.parametrize("name", ["async-scheduling", "server_args.max-len", "speed"])
def test_what_names_no_field_is_told_what_may_be_named(row: Row, name: str) -> None:
    rows = row("b", server_args=TODAY), row("s", "eagle3", server_args=TODAY)
    with pytest.raises(UnknownKey, match=r"is no field.*server_args\.max-model-len"):
        matched(*rows, allow=(name,))


IDLE = [("top_p", {"temperature": 0.0}), ("seed", {"temperature": 0.0}),
        ("gpu_count", {"evidence": "cpu"})]  # fmt: skip


@pytest.mark.parametrize(("field", "where"), IDLE)
def test_an_unknown_that_has_no_effect_is_no_doubt(
    row: Row, field: str, where: dict[str, Any]
) -> None:
    both = {field: None} | where
    found = matched(row("b", **both), row("s", "eagle3", **both))
    assert pairs(found) == [("b", "s")]
    assert names(found) == []


@pytest.mark.parametrize("field", STRICT)
def test_unknown_against_known_is_a_difference(row: Row, field: str) -> None:
    found = matched(row("b"), row("s", "eagle3", **changed(field, None)))
    assert pairs(found) == []
    assert f"{MATCH_FIELDS[field]} is unknown here" in reasons(found)["s"]


@pytest.mark.parametrize("field", UNKNOWN_MATCHES)
@pytest.mark.parametrize("arm", ["b", "s"])
def test_what_reports_leave_out_of_one_arm_pairs_as_unverified(
    row: Row, field: str, arm: str
) -> None:
    sides = {name: row(name, method) for name, method in (("b", "none"), ("s", "eagle3"))}
    sides[arm][field] = None
    found = matched(*sides.values())
    assert pairs(found) == [("b", "s")]
    assert names(found) == ["unverified"]
    assert found.pairs["flags"][0][0].sentence.endswith(f": {MATCH_FIELDS[field]}.")
    assert found.pairs["allowed"][0] == ()


def test_a_baseline_of_equal_facts_is_taken_before_one_that_leaves_some_unknown(row: Row) -> None:
    unsaid = row("a", engine_version=None)
    assert pairs(matched(unsaid, row("b"), row("s", "eagle3"))) == [("b", "s")]


def test_a_known_difference_is_not_made_up_for_by_an_unknown_one(row: Row) -> None:
    baseline = row("b", engine_version=None, precision="fp8")
    found = matched(baseline, row("s", "eagle3", precision="bf16"))
    assert pairs(found) == []
    assert reasons(found)["s"] == (
        "nearest baseline b differs: precision is bf16 here and fp8 there: compare all the same "
        "with --allow precision"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"load_profile": "concurrent"}, {"load_profile": "throughput"}),
        ({"load_profile": "concurrent", "concurrency": 1},
         {"load_profile": "synchronous", "concurrency": None}),
        ({"load_profile": "poisson", "concurrency": None, "rate": 2},
         {"load_profile": "poisson", "concurrency": None, "rate": 2.0}),
    ],
)  # fmt: skip
def test_one_load_in_two_wordings_pairs(
    row: Row, one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert pairs(matched(row("b", **one), row("s", "eagle3", **other))) == [("b", "s")]


def test_two_rates_never_pair_though_neither_has_a_concurrency(row: Row) -> None:
    rate = {"load_profile": "poisson", "concurrency": None}
    found = matched(row("b", **rate, rate=2.0), row("s", "eagle3", **rate, rate=4.0))
    assert reasons(found)["s"].endswith(
        "load is 4 requests/s (Poisson) here and 2 requests/s (Poisson) there"
    )


def test_a_column_that_is_missing_is_unknown(row: Row) -> None:
    cells = pd.DataFrame([row("b", temperature=0.6), row("s", "eagle3", temperature=0.6)])
    found = match(cells.drop(columns=["seed", "repeat", "started_at", "status"]))
    assert pairs(found) == [("b", "s")]
    assert names(found) == ["unverified"]


def test_large_numbers_that_differ_are_told_in_full(row: Row) -> None:
    found = matched(row("b", seed=1234567), row("s", "eagle3", seed=1234568), row("u", seed=None))
    assert "seed is 1234568 here and 1234567 there" in reasons(found)["s"]


def test_repeats_pair_with_the_same_repeat(row: Row) -> None:
    rows = [row(f"{m[0]}{r}", m, repeat=r) for m in ("none", "eagle3") for r in range(3)]
    found = matched(*rows)
    assert pairs(found) == [("n0", "e0"), ("n1", "e1"), ("n2", "e2")]
    assert not any(found.pairs["flags"])


def test_a_repeat_without_its_own_baseline_takes_the_nearest_and_says_so(row: Row) -> None:
    found = matched(
        row("b0", repeat=0, started_at=at(0)),
        row("b1", repeat=1, started_at=at(5)),
        row("s", "eagle3", repeat=2, started_at=at(6)),
    )
    assert pairs(found) == [("b1", "s")]
    assert names(found) == ["other_repeat", "several_baselines"]
    assert found.pairs["flags"][0][0].sentence == (
        "The repeat is 1 in the baseline and 2 in the other arm: no baseline has the same one."
    )


def test_an_unknown_repeat_is_not_the_same_as_a_known_one(row: Row) -> None:
    found = matched(row("b", repeat=0), row("s", "eagle3", repeat=None))
    assert names(found) == ["other_repeat"]
    assert "0 in the baseline and unknown" in found.pairs["flags"][0][0].sentence
    both = matched(row("b", repeat=None), row("s", "eagle3", repeat=None))
    assert names(both) == []


@pytest.mark.parametrize("starts", [(0, 10), (10, 0), (None, None)])
def test_where_one_arm_ran_after_the_other_no_baseline_stands_against_all_launches(
    row: Row, starts: tuple[int | None, int | None]
) -> None:
    """The nearest is one for all, whose own luck would be every pair's. Unknown times are told by
    nothing, so any order is as good."""
    moments = [[None if one is None else at(one + n) for n in range(3)] for one in starts]
    found = matched(
        *(row(f"b{n}", repeat=None, started_at=moments[0][n]) for n in range(3)),
        *(row(f"s{n}", "eagle3", repeat=None, started_at=moments[1][n]) for n in range(3)),
        row("other", "ngram", repeat=None, started_at=at(5)),
    )
    assert {pair for pair in pairs(found) if pair[1] != "other"} == {
        ("b0", "s0"), ("b1", "s1"), ("b2", "s2"),
    }  # fmt: skip
    said = [flags[-1].sentence for flags in found.pairs["flags"]]
    how = (
        "one by one, for their order is unknown"
        if None in starts
        else "in the order of their starts"
    )
    assert sum(how in one for one in said) == 3


@pytest.mark.parametrize(
    ("baselines", "launches", "made"),
    [
        # Of more baselines than launches the nearest are taken.
        (3, 2, [("b1", "s0"), ("b2", "s1")]),
        # Of fewer, some stand against two.
        (2, 3, [("b0", "s0"), ("b0", "s2"), ("b1", "s1")]),
        (2, 1, [("b1", "s0")]),
    ],
)
def test_of_unlike_numbers_of_repeats_as_many_as_can_be_are_used(
    row: Row, baselines: int, launches: int, made: list[tuple[str, str]]
) -> None:
    found = matched(
        *(row(f"b{n}", repeat=None, started_at=at(n)) for n in range(baselines)),
        *(row(f"s{n}", "eagle3", repeat=None, started_at=at(10 + n)) for n in range(launches)),
    )
    assert sorted(pairs(found)) == made


def test_launches_in_turns_pair_with_the_nearest(row: Row) -> None:
    found = matched(
        *(row(f"b{n}", repeat=None, started_at=at(10 * n)) for n in range(3)),
        *(row(f"s{n}", "eagle3", repeat=None, started_at=at(10 * n + 1)) for n in range(3)),
    )
    assert pairs(found) == [("b0", "s0"), ("b1", "s1"), ("b2", "s2")]
    assert all("nearest in time" in flags[0].sentence for flags in found.pairs["flags"])


def test_no_nearest_in_time_is_told_where_a_start_is_unknown(row: Row) -> None:
    cells = [row(f"b{n}", repeat=None, started_at=at(n)) for n in range(2)]
    found = matched(*cells, row("s", "eagle3", repeat=None, started_at=None))
    (flag,) = found.pairs["flags"][0]
    assert flag.sentence == "2 baselines match; one of them was taken, for their order is unknown."


def test_of_several_baselines_the_nearest_in_time_is_taken_and_the_others_told(row: Row) -> None:
    found = matched(
        row("early", started_at=at(0)),
        row("near", started_at=at(9)),
        row("late", started_at=at(20)),
        row("s", "eagle3", started_at=at(10)),
    )
    assert pairs(found) == [("near", "s")]
    assert names(found) == ["several_baselines"]
    assert "3 baselines match" in found.pairs["flags"][0][0].sentence
    told = "another baseline suits each of its possible partners better"
    assert reasons(found) == {"early": told, "late": told}


def test_a_baseline_of_unknown_time_comes_last_and_the_first_id_wins_a_tie(row: Row) -> None:
    found = matched(
        row("a", started_at=None), row("b", started_at=at(99)), row("s", "eagle3")
    )  # fmt: skip
    assert pairs(found) == [("b", "s")]
    tied = matched(row("b"), row("a"), row("s", "eagle3", started_at=None))
    assert pairs(tied) == [("a", "s")]


def test_an_equal_baseline_is_taken_before_one_with_an_allowed_difference(row: Row) -> None:
    found = matched(
        row("far", started_at=at(50), repeat=4),
        row("near", engine_version="other"),
        row("s", "eagle3"),
        allow=("engine_version",),
    )
    assert pairs(found) == [("far", "s")]


def test_the_fewest_allowed_differences_win(row: Row) -> None:
    found = matched(
        row("two", engine_version="x", seed=1, started_at=at(0)),
        row("one", engine_version="x", started_at=at(50)),
        row("s", "eagle3"),
        allow=("engine_version", "seed"),
    )
    assert pairs(found) == [("one", "s")]
    assert found.pairs["allowed"][0] == ("engine_version",)


def test_an_allowed_difference_is_no_reason(row: Row) -> None:
    found = matched(
        row("b", seed=1, model="other"), row("s", "eagle3"), allow=("seed",)
    )  # fmt: skip
    assert reasons(found)["s"] == "nearest baseline b differs: model is same here and other there"


def test_every_field_may_be_allowed(row: Row) -> None:
    found = matched(
        row("a", **{k: v for k, v in OTHER.items() if k != "load"}, concurrency=16),
        row("b", model="x"),
        row("s", "eagle3"),
        allow=tuple(MATCH_FIELDS),
    )
    assert pairs(found) == [("b", "s")]
    assert list(reasons(found)) == ["a"]


def test_a_field_that_is_none_cannot_be_allowed(row: Row) -> None:
    with pytest.raises(UnknownKey, match="'colour' is no field"):
        matched(row("b"), allow=("colour",))


def test_a_cell_of_unknown_speculation_is_told_how_to_say_it(row: Row) -> None:
    found = matched(row("b"), row("s", "eagle3"), row("u", None))
    assert reasons(found) == {
        "u": "whether it speculates is unknown: ingest it again with --replace and set "
        "spec_method (none for a baseline)"
    }


@pytest.mark.parametrize("method", ["none", "eagle3", None])
def test_a_failed_cell_is_not_compared(row: Row, method: str | None) -> None:
    found = matched(row("b"), row("s", "eagle3"), row("f", method, status="failed"))
    assert pairs(found) == [("b", "s")]
    assert reasons(found) == {"f": "this cell failed, so it is not compared"}


@pytest.mark.parametrize(("method", "missing"), [("none", "speculative"), ("eagle3", "baseline")])
def test_an_arm_alone_is_told_that_the_other_is_missing(
    row: Row, method: str, missing: str
) -> None:
    found = matched(row("x", method))
    assert reasons(found) == {"x": f"there is no good {missing} cell among those chosen"}


def test_no_cells_give_no_pairs(row: Row) -> None:
    found = match(pd.DataFrame([row("b")]).iloc[:0])
    assert found.pairs.empty
    assert found.unmatched.empty


def test_the_reason_names_the_nearest_of_many_kinds_of_baseline(row: Row) -> None:
    rows = [row(f"b{i:04}", dataset=f"d{i}", gpu="x", seed=i) for i in range(600)]
    rows[301] = row("b0301", dataset="d301", gpu="x")
    found = matched(*rows, row("s", "eagle3", dataset="d301"))
    assert reasons(found)["s"].startswith(
        "nearest baseline b0301 differs: GPU is same here and x there"
    )


def test_a_baseline_of_its_own_study_is_taken_before_a_nearer_one(row: Row) -> None:
    found = matched(
        row("other", study="b", started_at=pd.Timestamp("2026-11-01T00:00", tz="UTC")),
        row("own", study="a", started_at=pd.Timestamp("2026-11-02T00:00", tz="UTC")),
        row("s", "eagle3", study="a", started_at=pd.Timestamp("2026-11-01T00:01", tz="UTC")),
    )
    assert ("own", "s") in pairs(found)


def engine(**settings: Any) -> dict[str, str]:
    """A vLLM with known arguments, and what it made of them."""
    known = {"async_scheduling": True, "model_runner": "V2", "kv_cache_tokens": 800_080}
    return {"engine_settings": json.dumps(known | settings), "server_args": TODAY}


OFF = {"async_scheduling": False, "model_runner": "V1", "kv_cache_tokens": 625_056,
       "by_method": ["async_scheduling"]}  # fmt: skip


def test_engines_that_differ_with_equal_arguments_pair_and_are_told(row: Row) -> None:
    found = matched(row("b", **engine()), row("s", "eagle3", **engine(**OFF)))
    (flag,) = found.pairs["flags"][0]
    assert (flag.name, flag.severity) == ("engines_differ", "warning")
    assert flag.sentence == (
        "The two arms ran different engines: asynchronous scheduling on in the baseline, off in the "
        "other arm (the method switches it off); model runner V2 against V1 (the method's doing: the "
        "arguments are equal); KV cache in tokens 800,080 against 625,056."
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, []),
        ({"kv_cache_tokens": 799_000}, []),
        ({"kv_cache_tokens": 625_056}, ["info"]),
        ({"attention_backend": "FLASH_ATTN"}, []),
        ({"model_runner": "V1"}, ["warning"]),
    ],
)
def test_only_what_is_known_of_both_engines_differs(
    row: Row, settings: dict[str, Any], told: list[str]
) -> None:
    found = matched(row("b", **engine()), row("s", "eagle3", **engine(**settings)))
    assert [flag.severity for flag in found.pairs["flags"][0]] == told


@pytest.mark.parametrize(
    "unsure", [{"server_args": None, "temperature": 0.6}, {"engine": "sglang"}]
)
def test_a_cause_that_is_not_known_is_taken_for_the_method_with_a_doubt(
    row: Row, unsure: dict[str, Any]
) -> None:
    rows = row("b", **engine() | unsure), row("s", "eagle3", **engine(model_runner="V1") | unsure)
    said = {flag.name: flag.sentence for flag in matched(*rows).pairs["flags"][0]}
    assert "taken for the method's doing" in said["engines_differ"]
