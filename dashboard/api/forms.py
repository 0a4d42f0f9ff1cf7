"""The forms of an answer: JSON, or its rows as CSV or as an Arrow stream, as ``Accept`` asks."""

import io
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
from starlette.responses import Response

from answers.doors.questions import Asking
from answers.doors.rows import MEDIA, encoded
from dashboard.downloads import csv_bytes
from warehouse.json_text import json_text

Form = Literal[
    "application/json", "text/csv", "application/vnd.apache.arrow.stream",
    "application/vnd.draftboard.values",
]  # fmt: skip
Row = dict[str, Any]
JSON: Form = "application/json"
CSV: Form = "text/csv"
ARROW: Form = "application/vnd.apache.arrow.stream"
VALUES: Form = MEDIA


def offered(asking: Asking) -> tuple[Form, ...]:
    """Return the forms that an answer has, the usual one first."""
    rows: tuple[Form, ...] = (CSV, ARROW) if asking.listed else ()
    return (JSON, *rows, *((VALUES,) if asking.typed else ()))


def form_of(accept: str, forms: Sequence[Form]) -> Form | None:
    """Return the form that an Accept header prefers; None where it takes none that there is."""
    weighed = [(-_weight(accept, form), at, form) for at, form in enumerate(forms)]
    best, _, form = min(weighed)
    return form if best < 0 else None


def _weight(accept: str, form: Form) -> float:
    """Return the quality (0-1) that the most exact range gives the form; no header takes all."""
    best = (0, 0.0)
    for part in (accept or "*/*").split(","):
        name, _, more = part.strip().lower().partition(";")
        exact = {form: 3, f"{form.partition('/')[0]}/*": 2, "*/*": 1}.get(name.strip(), 0)
        if exact:
            best = max(best, (exact, _quality(more)))
    return best[1]


def _quality(more: str) -> float:
    said = [part.strip()[2:] for part in more.split(";") if part.strip().startswith("q=")]
    try:
        return float(said[0]) if said else 1.0
    except ValueError:
        return 0.0


def rendered(asking: Asking, told: Row, form: Form, headers: Mapping[str, str]) -> Response:
    """Return an answer in JSON, or its rows in another form."""
    if form == JSON:
        body = json_text(told, plain=False).encode()
    else:
        rows = list(asking.rows(told))
        body = _csv(rows) if form == CSV else _arrow(rows, _about(told))
    return Response(body, media_type=form, headers={**headers})


def of_values(found: Any, headers: Mapping[str, str]) -> Response:
    """Return the whole answer as its typed values, with the version that has them so."""
    told = {**headers, "Draftboard-Version": version("draftboard")}
    return Response(encoded(found), media_type=VALUES, headers=told)


def _csv(rows: Sequence[Row]) -> bytes:
    """Return the rows as CSV, with a header; nested names have a dot, lists are JSON."""
    return csv_bytes(_frame(rows))


def _about(told: Row) -> dict[str, str]:
    """Return where an answer comes from, as the metadata of its rows."""
    names = ("generation", "not_fresh")
    return {name: str(told[name]) for name in names if told[name] is not None}


def _arrow(rows: Sequence[Row], about: Mapping[str, str]) -> bytes:
    """Return the rows as an Arrow IPC stream, ``about`` among the metadata of its schema."""
    table = pa.Table.from_pandas(_frame(rows), preserve_index=False)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **about})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    frame = pd.json_normalize(list(rows))
    objects = [str(name) for name in frame if frame[name].dtype == "object"]
    return frame.assign(**{name: frame[name].map(_plain) for name in objects}).astype(
        dict.fromkeys(objects, "string")
    )


def _plain(value: object) -> object:
    if isinstance(value, float) and value != value:
        return None
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)
