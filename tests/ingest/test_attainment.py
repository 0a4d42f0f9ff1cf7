"""The share of a trace that was served: its arrivals' time over its completions'."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from ingest.attainment import with_attainment
from warehouse.rows import Cell, Source

#: Ten requests, one a second.
CAME = [float(at) for at in range(10)]


@pytest.mark.parametrize(
    ("lasts", "share"),
    [
        ([0.5] * 10, 1.0),
        # Each takes half a second longer than the one before: the last ends 4.5 s late.
        ([0.5 * (at + 1) for at in range(10)], 9 / 13.5),
    ],
)
def test_a_trace_that_piles_up_is_not_kept_up_with(
    make_source: Callable[..., Source], make_cell: Callable[..., Cell],
    make_requests: Callable[..., pa.Table], lasts: list[float], share: float,
) -> None:  # fmt: skip
    rows = make_requests("a", 10)
    ends = [came + last for came, last in zip(CAME, lasts, strict=True)]
    for name, values in (("start", CAME), ("end", ends)):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(name), pa.array(values))
    facts = {"load_profile": "trace", "trace": "bursts.csv", "concurrency": None}
    cell = with_attainment(make_cell(make_source(), 0, facts=facts, requests=rows))
    found = {m.metric: m.value for m in cell.measurements}
    assert found["request_attainment"] == pytest.approx(share)
