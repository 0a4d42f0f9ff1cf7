"""Forty-eight minutes of recorded counters, cut and mixed: the decision holds where nothing changed, and no
longer where traffic moved."""

from collections import Counter
from pathlib import Path

import pytest

from tests.truth.standing import TRAFFIC, trials
from warehouse.store import Reader

TIMES = 8


@pytest.mark.slow
def test_the_decision_holds_where_nothing_changed_and_no_longer_where_traffic_moved(
    examples: Path,
) -> None:
    told: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    with Reader(examples) as reader:
        for traffic in TRAFFIC:
            for answer in trials(reader, traffic, TIMES):
                told[traffic.holds][answer.standing] += 1
    assert sum(told[True].values()) == sum(told[False].values()) == 24
    assert told[True]["holds"] >= 0.95 * 24
    assert told[False]["no longer holds"] >= 0.9 * 24
