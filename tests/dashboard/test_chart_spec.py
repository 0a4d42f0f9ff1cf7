"""A chart goes to the browser with the rows that Altair itself would have sent."""

import json
import threading
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dashboard.charts import specification
from dashboard.downloads import vega_lite

ROWS = pd.DataFrame(
    {
        "text": ["a", None, "<b>"],
        "number": [1.5, np.nan, np.inf],
        "count": [1, 2, 3],
        "yes": [True, False, True],
        "at": pd.date_range("2026-11-01", periods=3, freq="25h", tz="UTC"),
        "mixed": pd.Series([1.0, None, None], dtype=object),
        "kind": pd.Categorical(["x", None, "y"]),
    }
)


def layered(rows: pd.DataFrame) -> Any:
    base = alt.Chart(rows).encode(x=alt.X(field="count", type="quantitative"))
    rule = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule()
    return alt.layer(rule, base.mark_line(), base.mark_point(), alt.Chart(rows.head(1)).mark_text())


def told(spec: dict[str, Any]) -> str:
    """A specification whose data are called by what they hold."""
    # Altair leaves NaN among other things; JSON knows none.
    names = {
        name: json.dumps(rows, sort_keys=True).replace("NaN", "null")
        for name, rows in spec["datasets"].items()
    }

    def renamed(part: Any) -> Any:
        if isinstance(part, dict):
            return {
                key: names.get(value, value) if key == "name" else renamed(value)
                for key, value in part.items() if key != "datasets"
            }  # fmt: skip
        return [renamed(one) for one in part] if isinstance(part, list) else part

    return json.dumps([renamed(spec), sorted(names.values())], sort_keys=True)


def test_the_rows_are_those_that_altair_would_send() -> None:
    chart = layered(ROWS)

    sent = vega_lite(specification(chart))

    whole = chart.to_dict()
    assert told({name: sent[name] for name in whole}) == told(whole)


def test_a_time_that_is_not_known_is_sent_as_nothing() -> None:
    rows = ROWS.assign(at=ROWS["at"].where(ROWS["count"] != 2))

    sent = vega_lite(specification(layered(rows)))

    times = [row["at"] for known in sent["datasets"].values() for row in known if "at" in row]
    assert None in times
    assert "2026-11-01T00:00:00+00:00" in times


def test_texts_are_of_the_one_kind_that_the_browser_reads() -> None:
    sent = specification(layered(ROWS))["datasets"].values()

    kinds = {field.type for data in sent for field in pa.ipc.open_stream(data).schema}
    assert kinds == {pa.string(), pa.float64(), pa.int64(), pa.bool_()}


def test_layers_that_share_a_frame_send_it_once() -> None:
    sent = specification(layered(ROWS))["datasets"]

    # The rule's own row, the frame of line and points, the one row of the text.
    assert len(sent) == 3
    assert all(isinstance(data, bytes) for data in sent.values())


def test_other_rows_have_another_name_and_the_same_rows_the_same() -> None:
    one, again = (set(specification(layered(ROWS))["datasets"]) for _ in range(2))
    other = set(specification(layered(ROWS.assign(count=7)))["datasets"])

    assert one == again
    # What is common is the row that stands in the chart itself.
    assert len(one & other) == 1


def test_readers_who_draw_at_the_same_time_get_their_own_rows() -> None:
    found: dict[int, list[int]] = {}

    def draw(number: int) -> None:
        known = vega_lite(specification(layered(ROWS.assign(count=number))))["datasets"]
        found[number] = [row["count"] for rows in known.values() for row in rows if "count" in row]

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {number: [number] * 4 for number in range(8)}


@pytest.mark.parametrize("rows", [ROWS.head(0), ROWS[["count"]]])
def test_no_rows_and_few_columns_are_rows_too(rows: pd.DataFrame) -> None:
    chart = alt.Chart(rows).mark_point()

    (sent,) = vega_lite(specification(chart))["datasets"].values()

    assert sent == rows.to_dict("records")
