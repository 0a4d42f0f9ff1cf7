"""Small words that many answers say."""

from answers.compare.words import counted, metric_name


def test_one_is_singular_and_many_are_grouped() -> None:
    assert counted(1, "cell") == "1 cell"
    assert counted(2000, "cell") == "2,000 cells"
    assert counted(3, "launch", "launches") == "3 launches"


def test_a_statistic_is_named_only_where_there_is_a_choice() -> None:
    assert metric_name("ttft", "p95") == "Time to first token (TTFT), P95"
    assert metric_name("output_throughput", "mean") == "Output throughput"
