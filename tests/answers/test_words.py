"""Small words that many answers say."""

from answers.compare.values import metric_name
from answers.trend import words as trend
from answers.wording import directed, interval, markdown, percent, size
from warehouse.catalogue import counted


def test_one_is_singular_and_many_are_grouped() -> None:
    assert counted(1, "cell") == "1 cell"
    assert counted(2000, "cell") == "2,000 cells"
    assert counted(3, "launch", "launches") == "3 launches"


def test_a_statistic_is_named_only_where_there_is_a_choice() -> None:
    assert metric_name("ttft", "p95") == "Time to first token (TTFT), P95"
    assert metric_name("output_throughput", "mean") == "Output throughput"


def test_what_is_twice_as_much_is_told_as_a_factor_and_thousands_of_percent_without_a_decimal() -> (
    None
):
    assert size(-0.111) == "11.1 %"
    assert size(-0.999) == "99.9 %"
    assert size(-1.0) == "2.0 times"
    assert size(-13.88) == "14.9 times"
    assert percent(-13.88) == "-1,388\u202f%"
    assert percent(13.88, sign=False) == "1,388\u202f%"
    assert interval(-12.5, -9.5) == "-1,250 to -950.0\u202f%"


def test_an_interval_of_losses_of_more_than_everything_begins_with_the_smaller_one() -> None:
    assert trend.interval(-24.5, -7.7) == "8.7 to 25.5 times worse"
    assert trend.interval(-0.659, -0.58) == "-65.9 % to -58.0 %"


def test_what_is_larger_than_anything_means_is_cut() -> None:
    assert percent(513.92, sign=False) == "10,000+\u202f%"
    assert interval(-0.98, 1e200) == "-98.0 to +10,000+\u202f%"
    assert interval(-1e200, 0.5) == "-10,000+ to +50.0\u202f%"
    assert directed(-1e200, 0.5, better=False) == "-50.0 to 10,000+\u202f%"
    assert directed(-0.02, 0.253, better=True) == "-2.0 to 25.3\u202f%"


def test_markdown_shows_a_text_as_it_stands_and_leaves_the_underscores_within_words() -> None:
    assert markdown("server_args.max_num_seqs") == "server_args.max_num_seqs"
    assert markdown("__init__ and _this_") == r"\_\_init\_\_ and \_this\_"
    assert markdown("a__b `c` [d](e)") == r"a\_\_b \`c\` \[d\](e)"
