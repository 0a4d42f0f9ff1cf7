"""A chart as Vega-Lite, its data in the bytes that a browser gets.

Altair turns the frame of every layer into rows and checks the whole against Vega-Lite's schema: most
of the time of a page. Layers share a frame, which is sent once, as a table; the schema is checked
where the charts are tested.
"""

import hashlib
from contextvars import ContextVar
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa
from altair.utils import schemapi

Drawing = dict[str, Any]
#: Frames of the chart that is being taken apart: by identity its name, its bytes, itself.
_Frames = dict[int, tuple[str, bytes, pd.DataFrame]]
_FRAMES: ContextVar[_Frames | None] = ContextVar("frames", default=None)
#: The browser's reader knows texts of this kind alone.
_KINDS = {pa.large_string(): pa.string()}


def _named(data: Any, **options: Any) -> Any:
    """Turn a frame into the name of what it holds; outside of ``specification`` do as Altair itself
    does."""
    frames = _FRAMES.get()
    if frames is None or not isinstance(data, pd.DataFrame):
        return alt.default_data_transformer(data, **options)
    if id(data) not in frames:
        sent = _sent(_table(data))
        # Another name for other rows: the browser then draws anew, and does not mend what it has.
        name = f"rows-{hashlib.sha256(sent).hexdigest()[:16]}"
        frames[id(data)] = (name, sent, data)
    return {"name": frames[id(data)][0]}


alt.data_transformers.register("named", _named)
alt.data_transformers.enable("named")
# Every part of a chart would be checked when it is made; ``to_dict`` in the tests checks the whole.
schemapi.disable_debug_mode()


def specification(chart: Any) -> Drawing:
    """Return the chart as Vega-Lite whose ``datasets`` are Arrow streams."""
    frames: _Frames = {}
    before = _FRAMES.set(frames)
    try:
        spec: dict[str, Any] = chart.to_dict(validate=False)
    finally:
        _FRAMES.reset(before)
    inline = spec.get("datasets", {})
    sent = {name: _sent(pa.Table.from_pylist(rows)) for name, rows in inline.items()}
    return spec | {"datasets": sent | {name: known for name, known, _ in frames.values()}}


def _table(rows: pd.DataFrame) -> pa.Table:
    """Return the rows as Vega reads them: times as text, null for a number that is unknown or
    infinite."""
    told: dict[str, Any] = {}
    for name, values in rows.items():
        if pd.api.types.is_datetime64_any_dtype(values):
            told[str(name)] = [None if pd.isna(at) else at.isoformat() for at in values]
        elif pd.api.types.is_float_dtype(values):
            told[str(name)] = values.where(np.isfinite(values.astype("float64")))
        else:
            plain = isinstance(values.dtype, pd.CategoricalDtype)
            told[str(name)] = values.astype(object) if plain else values
    table = pa.Table.from_pandas(pd.DataFrame(told, index=rows.index), preserve_index=False)
    kinds = [(field.name, _KINDS.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(kinds))


def _sent(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    sent: bytes = sink.getvalue().to_pybytes()
    return sent
