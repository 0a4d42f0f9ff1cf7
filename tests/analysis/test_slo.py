"""The language of service levels: what it reads, and one sentence for each mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.service.slo import EXAMPLE, parse
from warehouse.errors import InvalidInput


def test_the_example_reads_in_the_units_of_the_catalogue() -> None:
    found = [(b.metric, b.statistic, b.sign, b.limit) for b in parse(EXAMPLE).bounds]

    assert found == [
        ("ttft", "p95", "<", 200.0),
        ("itl", "p99", "<", 10.0),
        ("request_latency", "p50", "<", 2.0),
    ]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("ttft:p95<0.2s", 200.0), ("ttft:p95 <= 200 ms", 200.0), ("TTFT:P95<200MS", 200.0),
        ("ttft:median<1s", 1000.0), ("latency:p50<1500ms", 1.5), ("e2e:p99<2min", 120.0),
        ("error_rate<1%", 0.01), ("error_rate<=0", 0.0), ("acceptance>50%", 0.5),
        ("throughput>1e3", 1000.0), ("output_throughput:mean>=1000 tok/s", 1000.0),
        ("mean acceptance length>2", 2.0), ("ttft:mean<500us", 0.5),
    ],
)  # fmt: skip
def test_aliases_units_and_spaces(text: str, limit: float) -> None:
    (bound,) = parse(text).bounds
    assert bound.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at least one bound"),
        (" ; ;", "at least one bound"),
        ("ttft p95 200ms", "is no bound"),
        ("ttft:p95=200ms", "is no bound"),
        ("tftf:p95<200ms", "no metric 'tftf'; use one of output_throughput"),
        ("ttft<200ms", "say which, e.g. ttft:p95"),
        ("ttft:p97<200ms", "no statistic 'p97'"),
        ("ttft:std<200ms", "no statistic 'std'"),
        ("throughput:p95>9", "has only one value; leave out :p95"),
        ("ttft:p95>200ms", "better when lower, so the bound is written with <"),
        ("throughput<200", "better when higher, so the bound is written with >"),
        ("prompt_tokens:p50<9", "neither better high nor low"),
        ("ttft:p95<200", "ttft needs a unit; use one of ms, s"),
        ("ttft:p95<2kg", "'kg' is no unit of ttft"),
        ("ttft:p95<1.2.3s", "is no number"),
        ("ttft:p95<-5ms", "no value that ttft can have"),
        ("ttft:p95<1e999s", "no value that ttft can have"),
        ("ttft:p95<1s; ttft:p95<2s", "bound the same thing twice"),
    ],
)
def test_each_mistake_has_one_sentence(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("ttft:p95<200ms", 200.0, False), ("ttft:p95<=200ms", 200.0, True),
        ("throughput>100", 100.0, False), ("throughput>=100", 100.0, True),
        ("ttft:p95<200ms", 199.9, True), ("ttft:p95<200ms", float("nan"), False),
    ],
)  # fmt: skip
def test_a_bound_holds_or_does_not(text: str, value: float, holds: bool) -> None:
    assert parse(text).bounds[0].holds(value) is holds


def test_what_an_slo_reads_is_named_once() -> None:
    found = parse("ttft:p95<1s; ttft:p99<2s; itl:p95<20ms")
    assert (found.metrics, found.statistics) == (("ttft", "itl"), ("p95", "p99"))


@given(st.floats(1e-6, 1e9), st.sampled_from(["ttft:p95<{}ms", "latency:p50<={}s", "rps>{}"]))
def test_an_slo_reads_back_from_its_own_text(value: float, form: str) -> None:
    once = parse(form.format(f"{value:.15g}"))
    assert parse(once.text) == once


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    found, sentence = (), ""
    try:
        found = parse(text).bounds
    except InvalidInput as error:
        sentence = str(error)
    assert found or sentence.endswith((".", EXAMPLE))
