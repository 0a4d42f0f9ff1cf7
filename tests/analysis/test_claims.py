"""Recomputing foreign tables: what is flagged, what is let pass, what cannot be read."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metric_words import read_metric
from analysis.published.claims import Claims, as_improvement, judge
from analysis.published.claims_file import read_claims
from warehouse.errors import InvalidInput

CASES = Path(__file__).parents[1] / "fixtures" / "cases"


def judged(text: str, where: str = "claims.yaml") -> Claims:
    return judge(read_claims(text, where))


def row(metric: str, baseline: object, speculative: object, pct: object, **more: object) -> str:
    fields: Mapping[str, Any] = {
        "metric": metric, "baseline": baseline, "speculative": speculative, "published_pct": pct,
        **more,
    }  # fmt: skip
    return "- {" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}\n"


@pytest.mark.parametrize(
    ("metric", "baseline", "speculative", "pct", "flagged"),
    [
        # 120/100 - 1 = 20 %, between 18.8 and 21.2 as the inputs are rounded.
        ("output_tokens_per_second", 100, 120, 21, False),
        ("output_tokens_per_second", "100.0", "120.0", 21, True),
        ("output_tokens_per_second", "100.0", "120.0", "20.1", False),
        ("output_tokens_per_second", "100.0", "120.0", "20.2", True),
        # A latency improves downwards: 1 - 8/10.
        ("itl_p95_ms", "10.00", "8.00", 20, False),
        ("itl_p95_ms", "10.00", "8.00", "+30.0", True),
    ],
)
def test_the_tolerance_follows_from_the_decimals(
    metric: str, baseline: object, speculative: object, pct: object, flagged: bool
) -> None:
    (finding,) = judged(f"table:\n{row(metric, baseline, speculative, pct)}").findings
    assert finding.flagged is flagged
    assert finding.reason


def test_two_rows_of_one_table_can_be_swapped() -> None:
    swapped = row("itl_p95_ms", "10.00", "8.00", 30) + row("tpot_p95_ms", "10.00", "7.00", 20)
    apart = row("itl_p95_ms", "10.00", "8.00", 30, tp=1) + row(
        "tpot_p95_ms", "10.00", "7.00", 20, tp=2
    )

    assert [f.kind for f in judged(f"table:\n{swapped}").findings] == ["swapped", "swapped"]
    assert [f.kind for f in judged(f"table:\n{apart}").findings] == ["arithmetic", "arithmetic"]


def test_half_an_exchange_is_no_swap() -> None:
    # The first prints what the second gives, but the second prints what nobody gives.
    half = row("itl_p95_ms", "10.00", "8.00", 30) + row("tpot_p95_ms", "10.00", "7.00", 25)
    assert [f.kind for f in judged(f"table:\n{half}").findings] == ["arithmetic", "arithmetic"]


def test_a_regression_among_improvements_has_the_wrong_sign() -> None:
    (finding,) = judged("table:\n" + row("ttft_p95_s", "6.18", "6.75", "9.3")).findings

    assert finding.kind == "sign"
    assert "a regression of 9.2 %, printed as +9.3 %" in finding.reason


def test_a_table_that_prints_changes_is_read_by_its_own_convention() -> None:
    changes = (
        row("output_tokens_per_second", "100.0", "120.0", "20.0")
        + row("request_latency_median_s", "10.00", "8.00", "-20.0")
        + row("itl_p95_ms", "10.00", "9.00", "-10.0")
        + row("ttft_p95_s", "10.00", "11.00", "+10.0")
    )
    found = judged(f"table:\n{changes}")

    assert not found.flagged
    assert [f.published for f in found.findings] == [20.0, -20.0, -10.0, 10.0]
    assert [as_improvement(f).published for f in found.findings] == pytest.approx([20, 20, 10, -10])
    assert found.conventions == ("table, published_pct: printed as changes, new / old - 1.",)


def cased(name: str) -> Claims:
    (file,) = CASES.glob(name)
    return judged(file.read_text(encoding="utf-8"), file.name)


def test_speedups_printed_as_factors_are_held_against_their_rows() -> None:
    table, rows = cased("07-*/table.csv"), cased("07-*/table.yaml")

    assert [f.flagged for f in table.findings] == [False, True, False]
    assert table.flagged[0].reason == "Its own row gives 1.30x, not 1.45x."
    assert table.flagged[0].about["concurrency"] == "8"
    assert [f.flagged for f in rows.findings] == [False, True]
    assert "gives 1.66x" in rows.flagged[0].reason
    assert all("printed as factors" in one for one in (*table.conventions, *rows.conventions))


def test_half_the_time_printed_as_100_percent_is_a_ratio_of_times_and_no_error() -> None:
    found = cased("09-*/table.yaml")

    assert not found.flagged
    (said,) = found.conventions
    assert "ratios of times" in said
    assert "as improvements they are 50.0, 20.0, 20.0 %" in said


@pytest.mark.parametrize(
    ("convention", "printed"),
    [
        ("improvement", lambda old, new: f"{100 * (1 - new / old):.1f}"),
        ("change", lambda old, new: f"{100 * (new / old - 1):.1f}%"),
        ("ratio of times", lambda old, new: f"{100 * (old / new - 1):+.1f} %"),
        ("factor", lambda old, new: f"{old / new:.3f}×"),
        ("factor", lambda old, new: f"{old / new:.3f}"),
        ("ratio", lambda old, new: f"{new / old:.3f}x"),
    ],
)
def test_one_wrong_row_among_many_is_named_in_the_convention_of_the_others(
    convention: str, printed: Callable[[float, float], str]
) -> None:
    pairs = [(20.0, 10.0), (30.0, 24.0), (100.0, 70.0), (50.0, 45.0), (41.0, 52.0)]
    texts = [printed(*pair) for pair in pairs]
    texts[2] = printed(100.0, 62.0)
    table = "".join(
        f"- {{metric: tpot_ms, baseline: '{old:.3f}', speculative: '{new:.3f}', speedup: '{text}', concurrency: {at}}}\n"
        for at, ((old, new), text) in enumerate(zip(pairs, texts, strict=True))
    )
    found = judged(f"table:\n{table}")

    assert [f.about["concurrency"] for f in found.flagged] == ["2"]
    assert {f.convention for f in found.findings} == {convention}
    right = [as_improvement(f).published for f in found.findings if not f.flagged]
    assert right == pytest.approx([50, 20, 10, -26.8], abs=0.2)


def test_each_column_has_a_convention_of_its_own() -> None:
    csv = (
        "Metric,Baseline,Speculative,Speedup,change (%)\n"
        "TPOT ms,20.0,10.0,2.00x,-50.0\n"
        "TPOT ms,30.0,24.0,1.25x,-20.0\n"
        "output tokens/s,100.0,165.0,1.65x,65.0\n"
        "output tokens/s,100.0,165.0,-,n/a\n"
    )
    found = judged(csv, "x.csv")

    assert not found.flagged
    assert len(found.findings) == 6
    assert [one.convention for one in found.findings[:2]] == ["factor", "change"]
    assert len(found.conventions) == 2
    assert len(found.unclaimed) == 1


def test_a_wrong_speedup_alone_is_told_in_the_form_that_its_column_names() -> None:
    texts = ("1.85", "45", "45 %")
    gives = ["1.66x", "+65.6 %", "+65.6 %"]
    for text, said in zip(texts, gives, strict=True):
        table = f"t:\n- {{what: output tok/s, baseline: 133.00, speculative: 220.21, speedup: {text}}}\n"
        (flagged,) = judged(table).flagged
        assert f"gives {said}" in flagged.reason


def test_a_table_of_one_row_is_taken_by_any_convention_and_it_is_said() -> None:
    found = judged("t:\n" + row("itl_ms", "10.00", "8.00", "+25.0"))

    assert not found.flagged
    assert "ratios of times" in found.conventions[0]
    assert "as one row alone says" in found.conventions[0]


def test_one_minus_among_improvements_is_a_wrong_sign_and_no_convention() -> None:
    table = (
        row("request_latency_median_s", "10.00", "8.00", "20.0")
        + row("tpot_p95_ms", "10.00", "9.50", "5.0")
        + row("itl_p95_ms", "10.00", "9.00", "-10.0")
    )
    assert [f.kind for f in judged(f"table:\n{table}").flagged] == ["sign"]


def test_a_wrong_figure_in_a_table_of_changes_is_still_found() -> None:
    table = (
        row("request_latency_median_s", "10.00", "8.00", "-20.0")
        + row("itl_p95_ms", "10.00", "9.00", "-10.0")
        + row("ttft_p95_s", "10.00", "9.00", "-30.0")
    )
    assert [(f.metric, f.kind) for f in judged(f"table:\n{table}").flagged] == [
        ("ttft_p95_s", "arithmetic")
    ]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("price: aws p5en.48xlarge, tp: 1", "basis"),
        ("price: hyperstack h200, tp: 1", None),
        ("gpu: NVIDIA H200 141GB, tp: 8", None),
        ("gpu: NVIDIA B200, tp: 1", None),
    ],
)
def test_a_row_that_names_its_price_or_gpu_says_how_many_gpus_were_bought(
    more: str, kind: str | None
) -> None:
    usd = "41.62" if "gpu:" in more else "42"
    cost = 1e6 / 2000 * float(usd) / 3600
    text = f"cost: {{usd_per_hour: {usd}, tok_s: 2000.0, usd: {cost:.2f}, {more}}}"
    (finding,) = judged(text).findings
    assert finding.kind == kind


def test_figures_wrong_by_different_factors_are_different_errors() -> None:
    # 1000 tokens/s at 3.6 USD/h: a million for 1 USD; one sum is twice that, another five times.
    text = "cost: {usd_per_hour: 3.6, tok_s: 1000.0, usd: 2.0, usd_per_1k: 0.005}"
    assert [len(one.findings) for one in judged(text).errors] == [1, 1]


def test_a_geometric_mean_is_recomputed_from_the_levels_beside_it() -> None:
    csv = (
        "dataset,concurrency,metric,baseline,speculative,published_pct\n"
        "code,1,output_tokens_per_second,100.0,200.0,100\n"
        "code,4,output_tokens_per_second,400.0,450.0,12.5\n"
        "code,geomean,output_tokens_per_second,200.0,320.0,60\n"
        "chat,1,output_tokens_per_second,7.0,7.0,0\n"
    )
    found = {
        (f.metric, f.about.get("arm")): f for f in judged(csv, "x.csv").findings if "arm" in f.about
    }

    # sqrt(100 x 400) = 200 and sqrt(200 x 450) = 300.
    assert not found["geometric mean of output_tokens_per_second", "baseline"].flagged
    wrong = found["geometric mean of output_tokens_per_second", "speculative"]
    assert wrong.flagged
    assert wrong.recomputed == pytest.approx(300.0)
    assert len(found) == 2


def test_acceptance_length_follows_from_a_fixed_number_of_draft_tokens() -> None:
    text = (
        "draft_tokens:\n"
        "- {num_speculative_tokens: 3, acceptance_rate: 0.356, mean_acceptance_length: 2.07}\n"
        "- {num_speculative_tokens: 3, acceptance_rate: 0.356, mean_acceptance_length: 2.17}\n"
    )
    assert [f.flagged for f in judged(text).findings] == [False, True]


@pytest.mark.parametrize(
    ("more", "kinds"),
    [
        ("", {"usd": None}),
        (", gpus_per_instance: 8, gpus_used: 8", {"usd": None}),
        (", gpus_per_instance: 8, gpus_used: 2", {"usd": "basis"}),
        (", usd_per_1k: 0.001, usd_per_day: 2.0, tokens_per_day: 2000000",
         {"usd": None, "usd_per_1k": None, "usd_per_day": None}),
        (", usd_per_1k: 0.002", {"usd": None, "usd_per_1k": "arithmetic"}),
    ],
)  # fmt: skip
def test_a_cost_must_follow_and_stand_on_the_price_of_its_own_gpus(
    more: str, kinds: dict[str, str | None]
) -> None:
    # 1000 tokens/s at 3.6 USD/h: a million in 1000 s, for 1 USD.
    found = judged(f"cost: {{usd_per_hour: 3.6, tok_s: 1000.0, usd: 1.0{more}}}").findings
    assert {f.metric: f.kind for f in found} == kinds


def test_a_listed_price_and_a_table_tell_the_basis_where_the_row_does_not() -> None:
    cost = "cost: {usd_per_hour: 41.62, tok_s: 2620.89, usd: 4.41}\n"
    table = "points:\n" + row("peak output tok/s", "2620.89", "3250.07", 24, tp=1)

    (alone,) = (f for f in judged(cost).findings if f.metric == "usd")
    assert not alone.flagged
    assert "does not say how many GPUs the price buys" in alone.reason
    (told,) = (f for f in judged(cost + table).findings if f.metric == "usd")
    assert told.kind == "basis"
    assert "0.551 USD" in told.reason
    assert told.recomputed == pytest.approx(4.411, abs=1e-3)


def test_a_round_price_is_nobody_s_in_particular() -> None:
    # 42 USD/h could be one of the listed instances of 8 GPUs, or anything else.
    text = "cost: {usd_per_hour: 42, tok_s: 2620.89, usd: 4.45}\npoints:\n" + row(
        "peak output tok/s", "2620.89", "3250.07", 24, tp=1
    )
    assert not judged(text).flagged


def test_what_is_not_checked_is_said() -> None:
    text = (
        "study: {model: x}\nrules: [{rule: start at 3}]\ntable:\n"
        "- {what: TTFT P95 s, baseline: 16.4, speculative: 13.7, tp: 1}\n"
    )
    found = judged(text)

    assert found.findings == ()
    assert any("prints no improvement; its values give +16.5 %" in s for s in found.unclaimed)
    assert "rules: nothing to recompute." in found.unclaimed


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "a.yaml", "is no table"),
        ("just text", "a.yaml", "is no table"),
        ("a: 3", "a.yaml", "no figure that can be recomputed"),
        ("", "a.csv", "no figure that can be recomputed"),
        ("x,y\n1,2\n", "a.csv", "no figure that can be recomputed"),
        ("t:\n" + row("itl_ms", "abc", 2, 3), "a.yaml", "t row 1: baseline: 'abc' is no number"),
        ("t:\n" + row("itl_ms", 0, 2, 3), "a.yaml", "t row 1: baseline must be above zero"),
        ("t:\n" + row("itl_ms", 1, -2, 3), "a.yaml", "t row 1: speculative must be above zero"),
        ("t:\n" + row("itl_ms", 1, 2, "much"), "a.yaml", "t row 1: published_pct: 'much'"),
        ("t:\n" + row("bananas", 1, 2, 3), "a.yaml", "'bananas' is no metric of the catalogue"),
        ("c: {usd_per_hour: 5, tok_s: 9, usd: 1, gpus_used: 1.5}", "a.yaml", "no whole number"),
        ("c: {usd_per_hour: 0, tok_s: 3, usd: 1}", "a.yaml", "usd_per_hour must be above zero"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_checked_is_one_sentence(text: str, where: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        judged(text, where)
    assert "\n" not in str(caught.value)


def test_acceptance_is_recomputed_in_a_table_of_one_row_a_run() -> None:
    found = cased("17-*/mtp_CodeSet.csv")

    assert [f.metric for f in found.findings] == ["mean_acceptance_length"] * 3
    assert [f.recomputed for f in found.findings] == pytest.approx(
        [1 + 11993 / 9581, 1 + 149367 / 118304, 1 + 617051 / 485414]
    )
    assert not found.flagged
    with pytest.raises(InvalidInput, match="no figure that can be recomputed"):
        cased("17-*/baseline_CodeSet.csv")


@pytest.mark.parametrize(
    ("fields", "flagged"),
    [
        # 1 + 900 / 600 = 2.5; 900 / 1800 = 50 %.
        ("Acceptance length: 2.50, Drafts: 600, Accepted tokens: 900", []),
        ("Acceptance length: 2.30, Drafts: 600, Accepted tokens: 900", ["mean_acceptance_length"]),
        ("'Acceptance rate (%)': 50.00, Draft tokens: 1800, Accepted tokens: 900", []),
        ("acceptance_rate: 0.53, num_draft_tokens: 1800, num_accepted_tokens: 900", ["acceptance_rate"]),
        ("acceptance_length: 2.25, per_position_acceptance_rate: [0.70, 0.35, 0.20]", []),
        ("acceptance_length: 2.45, acceptance_per_position: '70 %, 35 %, 20 %'", ["mean_acceptance_length"]),
        ("tau: 2.25, position_0: 0.70, position_1: 0.35, position_2: 0.20", []),
        ("accept_length: 2.20, k: 3, accept_rate: 40%", []),
        ("accept_length: 2.60, k: 3, accept_rate: 40%", ["mean_acceptance_length"]),
        # Not every draft has three tokens: 1000 drafts of 2.5 tokens.
        ("accept_length: 2.0, k: 3, accept_rate: 40%, num_drafts: 1000, num_draft_tokens: 2500", []),
    ],
)  # fmt: skip
def test_acceptance_is_checked_wherever_it_stands(fields: str, flagged: list[str]) -> None:
    beside = "metric: itl_ms, baseline: 10.0, speculative: 8.0, published_pct: 20.0, concurrency: 4"
    told = judged(f"t:\n- {{{beside}, {fields}}}\n")
    assert [f.metric for f in told.flagged] == flagged
    assert len(told.findings) == (1 if "2500" in fields else 2)


def test_a_speedup_above_the_tokens_of_a_step_is_not_from_the_drafts_alone() -> None:
    own = "t:\n" + "".join(
        row("output_tok_s", 100, new, f"{new / 100:.2f}x", concurrency=load, acceptance_length=2.1)
        for load, new in ((1, 250), (1, 205), (8, 250))
    )
    (flagged,) = judged(own).flagged
    assert (flagged.kind, flagged.about["concurrency"]) == ("drafts", "1")
    assert flagged.reason == (
        "2.50x at one request at once is more than the 2.10 tokens of a step: not from these "
        "drafts alone."
    )
    apart = (
        "t:\n"
        + row("tpot_ms", "10.0", "4.0", "2.5x", concurrency=1, method="eagle3")
        + "drafts:\n- {method: eagle3, k: 3, acceptance_rate: 0.40, acceptance_length: 2.20}\n"
        "- {method: ngram, k: 5, acceptance_rate: 0.40, acceptance_length: 3.00}\n"
    )
    assert [f.kind for f in judged(apart).flagged] == ["drafts"]
    assert not judged(apart.replace("method: ngram", "method: eagle3")).flagged


def test_a_small_file_that_unfolds_into_a_large_one_is_refused() -> None:
    bomb = "a0: &a0 [{usd_per_hour: 1}]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    with pytest.raises(InvalidInput, match="an alias"):
        judged(bomb)


def test_a_metric_of_its_own_may_state_its_direction() -> None:
    text = "t:\n" + row("queue depth", "10.0", "8.0", 20, better="lower")
    assert not judged(text).flagged


@pytest.mark.parametrize(
    ("name", "metric", "statistic"),
    [
        ("output_tokens_per_second", "output_throughput", "mean"),
        ("Total throughput (tok/s)", "total_throughput", "mean"),
        ("ttft_p95_s", "ttft", "p95"),
        ("Time per output token P99 (ms)", "tpot", "p99"),
        ("Inter-token latency, median", "itl", "p50"),
        ("Request latency median (s)", "request_latency", "p50"),
        ("mean acceptance length", "mean_acceptance_length", "mean"),
        ("requests per second", "request_throughput", "mean"),
    ],
)
def test_foreign_names_are_read_as_ours(name: str, metric: str, statistic: str) -> None:
    found = read_metric(name)
    assert found is not None
    assert (found.metric, found.statistic) == (metric, statistic)


@given(st.floats(1, 1e4), st.floats(1, 1e4), st.integers(0, 3), st.booleans())
def test_an_honest_table_is_never_flagged(
    baseline: float, speculative: float, digits: int, lower: bool
) -> None:
    metric = "itl_p95_ms" if lower else "output_tokens_per_second"
    ratio = speculative / baseline
    pct = 100 * (1 - ratio if lower else ratio - 1)
    text = row(metric, f"{baseline:.{digits}f}", f"{speculative:.{digits}f}", f"{pct:.1f}")
    assert not judged("t:\n" + text).flagged


@given(st.floats(10, 1e4), st.floats(0.2, 5), st.sampled_from([1e-3, 60.0, 1e3]))
def test_units_change_nothing(baseline: float, ratio: float, factor: float) -> None:
    values = [baseline, baseline * ratio]
    ours = [judged("t:\n" + row("itl_ms", *(f"{v * f:.9f}" for v in values), "10.0")).findings[0]
            for f in (1.0, factor)]  # fmt: skip
    assert ours[0].flagged == ours[1].flagged
    assert ours[0].recomputed == pytest.approx(ours[1].recomputed, rel=1e-4, abs=1e-3)
