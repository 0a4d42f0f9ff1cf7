"""Published improvements beside our own measurements: only of the same thing."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.evidence.effects import Effects, effects
from analysis.matching.comparison import Comparison, compare
from analysis.published.claims import judge
from analysis.published.claims_file import read_claims
from analysis.published.claims_measured import beside

Row = Callable[..., dict[str, Any]]


@pytest.fixture
def found(row: Row) -> tuple[Comparison, Effects]:
    """+50 % at concurrency 1, +28 % at 4: a geometric mean of +38.6 %."""
    values = {("none", 1): 100, ("eagle3", 1): 150, ("none", 4): 400, ("eagle3", 4): 512}
    cells = [
        row(f"{m}{c}", m, concurrency=c, dataset="code", model="big", arm_label=m,
            tensor_parallel_size=2, reported_definition="x", evidence="gpu")
        for m, c in values
    ]  # fmt: skip
    rows = [
        (f"{m}{c}", "canonical", "output_throughput", "mean", float(v))
        for (m, c), v in values.items()
    ]
    columns = ["cell_id", "origin", "metric", "statistic", "value"]
    known = compare(pd.DataFrame(cells), pd.DataFrame(rows, columns=columns))
    return known, effects(known, pd.DataFrame(cells))


def measured(found: tuple[Comparison, Effects], about: str, study: str = "{}") -> list[float]:
    text = (
        f"study: {study}\nt: [{{metric: output_tokens_per_second, baseline: 100.0, "
        f"speculative: 120.0, published_pct: 20{about}}}]"
    )
    tables = read_claims(text, "c.yaml")
    (finding,) = judge(tables).findings
    return [told["improvement"] for told in beside([finding], *found, tables.model)[0].measured]


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ("", [38.56]),
        (", dataset: Code, tp: 2", [38.56]),
        (", concurrency: 4", [28.0]),
        (", concurrency: 8", []),
        (", dataset: chat", []),
        (", tp: 1", []),
        (", model: small", []),
        (", arms: 4 against 3", []),
    ],
)
def test_a_claim_meets_the_measurements_that_share_what_it_states(
    found: tuple[Comparison, Effects], about: str, expected: list[float]
) -> None:
    assert measured(found, about) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("study", "count"), [("{target_model: big}", 1), ("{target_model: gpt}", 0)]
)
def test_another_model_s_numbers_never_stand_beside_a_claim(
    found: tuple[Comparison, Effects], study: str, count: int
) -> None:
    assert len(measured(found, "", study)) == count


def test_a_peak_is_no_mean(found: tuple[Comparison, Effects]) -> None:
    text = "t: [{what: peak output tok/s, baseline: 100.0, speculative: 120.0, published_pct: 20}]"
    (finding,) = judge(read_claims(text, "c.yaml")).findings
    assert beside([finding], *found)[0].measured == ()
