"""Small words that many pages say."""

from dashboard import phrases
from warehouse.catalogue import METRICS


def test_one_is_singular_and_many_are_grouped() -> None:
    assert phrases.counted(1, "cell") == "1 cell"
    assert phrases.counted(2000, "cell") == "2,000 cells"
    assert phrases.counted(3, "launch", "launches") == "3 launches"


def test_a_statistic_is_named_only_where_there_is_a_choice() -> None:
    assert phrases.named(METRICS["ttft"], "p95") == "Time to first token (TTFT), P95"
    assert phrases.named(METRICS["output_throughput"], "mean") == "Output throughput"
