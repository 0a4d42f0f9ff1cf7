"""The share of an open load that was served: of a trace its arrivals' time over its completions'."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from ingest.reading import with_attainment
from warehouse.rows import Cell, Source

#: Ten requests, one a second.
CAME = [float(at) for at in range(10)]


Served = Callable[..., dict[str, float | None]]


@pytest.fixture
def served(
    make_source: Callable[..., Source], make_cell: Callable[..., Cell],
    make_requests: Callable[..., pa.Table],
) -> Served:  # fmt: skip
    """The measurements of ten requests that came one a second and took so long, under an open load."""

    def measured(lasts: list[float], **facts: object) -> dict[str, float | None]:
        rows = make_requests("a", 10)
        ends = [came + last for came, last in zip(CAME, lasts, strict=True)]
        for name, values in (("start", CAME), ("end", ends)):
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(name), pa.array(values))
        cell = make_cell(make_source(), 0, facts=facts | {"concurrency": None}, requests=rows)
        return {m.metric: m.value for m in with_attainment(cell).measurements}

    return measured


@pytest.mark.parametrize(
    ("lasts", "share"),
    [
        ([0.5] * 10, 1.0),
        # Each takes half a second longer than the one before: the last ends 4.5 s late.
        ([0.5 * (at + 1) for at in range(10)], 9 / 13.5),
    ],
)
def test_a_trace_that_piles_up_is_not_kept_up_with(
    served: Served, lasts: list[float], share: float
) -> None:
    found = served(lasts, load_profile="trace", trace="bursts.csv")
    assert found["request_attainment"] == pytest.approx(share)


@pytest.mark.parametrize("load", [
    {"load_profile": "poisson", "rate": 1.0}, {"load_profile": "trace", "trace": "bursts.csv"},
])  # fmt: skip
def test_of_a_load_that_is_over_before_its_answers_nobody_knows_what_share_is_served(
    served: Served, load: dict[str, object]
) -> None:
    # All are taken at once and end together, half a minute late: ten a second is no rate served.
    together = [30.0 - at + 0.1 * at for at in range(10)]
    assert "request_attainment" not in served(together, **load)
    assert served([4.0] * 10, **load)["request_attainment"] == pytest.approx(1.0)
