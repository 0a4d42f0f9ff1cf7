"""Whether a published set holds, a folder as it is or an address, fetched file by file."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pyarrow as pa

from analysis.canonical import Columns, Window, canonical
from commands.publishing import attestation
from commands.publishing.attestation import PUBLIC_KEY, STATEMENT, attested
from commands.publishing.write import CLAIMS, DATA, RESULTS, as_written, claims_json
from warehouse import queries
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

# --- Whether a published set holds: signature, hashes, numbers from requests, claims from numbers.


def check(folder: Path, key: Path | None) -> tuple[list[str], list[str]]:
    """Return a sentence for each thing of the set in ``folder`` that does not hold, and for each kind of
    thing that does. ``key``: the publisher's, else the one that lies in the set.

    Raises InvalidInput where the signature does not hold.
    """
    statement = attestation.attested(folder, key)
    altered = attestation.altered(folder, statement)
    if altered:
        # What was altered is not worth an answer.
        return altered, []
    with Reader(folder / DATA, everything=True) as reader:
        wrong, numbers, without = recompute(reader)
    with Reader(folder / DATA) as reader:
        if not as_written(reader, folder / RESULTS):
            wrong.append(f"{RESULTS} is not what {DATA} comes to.")
        wrong += contradictions(reader, (folder / CLAIMS).read_text(encoding="utf-8"))
    by = f"{statement.predicate.get('published_by')}, who signed with the key {statement.key}"
    whose = "" if key else " (which lies in the set: whose it is, only its owner can tell you)"
    lacking = f"; {without:,} cells came without requests" if without else ""
    # Only sigstore's own tool checks its bundle.
    unchecked = f"Not checked here: {attestation.SIGSTORE}, see sigstore verify identity --help."
    return wrong, [
        f"Signature: by {by}{whose}.",
        f"Hashes: {len(statement.files):,} files are what was signed.",
        f"Numbers: {numbers:,} follow from the requests{lacking}.",
        f"Claims: {CLAIMS} and {RESULTS} follow from the numbers.",
        *([unchecked] if (folder / attestation.SIGSTORE).exists() else []),
    ]


# --- A published set on this machine: a folder as it is, or an address, fetched file by file.


_PATIENCE_S = 60.0
#: A statement of so many bytes names tens of thousands of files.
_LARGEST_STATEMENT = 16 * 2**20
_MOST_BYTES = 20 * 2**30


@contextmanager
def fetched(place: str) -> Iterator[Path]:
    """Yield the folder of a set; of an address a copy, which is removed at the end.

    Only what the statement names is fetched, and no more of it than it says. Raises InvalidInput.
    """
    if not place.startswith(("https://", "http://")):
        if not Path(place).is_dir():
            raise InvalidInput(f"{place} is no folder; name one that draftboard publish wrote.")
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="draftboard-verify-") as folder:
        _fetch_set(place.rstrip("/"), Path(folder))
        yield Path(folder)


def _fetch_set(address: str, folder: Path) -> None:
    with httpx.Client(timeout=_PATIENCE_S, follow_redirects=True) as client:
        for name in (STATEMENT, PUBLIC_KEY):
            _fetch(client, f"{address}/{name}", folder / name, _LARGEST_STATEMENT)
        # With its own key: whether that is the right one is asked when all of it is there.
        files = attested(folder, None).files
        if sum(size for _, size in files.values()) > _MOST_BYTES:
            raise InvalidInput(f"{address} is larger than 20 GB; fetch it, then verify the folder.")
        for name, (_, size) in files.items():
            _fetch(client, f"{address}/{quote(name)}", folder / name, size)


def _fetch(client: httpx.Client, address: str, path: Path, most: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with client.stream("GET", address) as answer, path.open("wb") as file:
            if not answer.is_success:
                raise InvalidInput(
                    f"{address} cannot be fetched: the server answered {answer.status_code}."
                )
            for part in answer.iter_bytes():
                most -= len(part)
                if most < 0:
                    raise InvalidInput(
                        f"{address} is larger than its statement says; it was altered."
                    )
                file.write(part)
    except httpx.HTTPError as error:
        raise InvalidInput(f"{address} cannot be fetched ({type(error).__name__}).") from None


# --- Whether claims follow from the numbers of a set.


_CLOSE = 1e-9
_FIRST = 20


def contradictions(reader: Reader, claimed: str) -> tuple[str, ...]:
    """Return a sentence for each place at which claims (JSON text) differ from what the warehouse's
    numbers come to."""
    found = list(_differences("", json.loads(claimed), claims_json(reader)))
    more = [f"{len(found) - _FIRST:,} more claims do not follow."] if len(found) > _FIRST else []
    return (*found[:_FIRST], *more)


def _differences(place: str, claimed: Any, again: Any) -> Iterator[str]:
    if isinstance(claimed, dict) and isinstance(again, dict):
        for name in {**claimed, **again}:
            yield from _differences(
                f"{place}.{name}".lstrip("."), claimed.get(name), again.get(name)
            )
    elif isinstance(claimed, list) and isinstance(again, list) and len(claimed) == len(again):
        for index, pair in enumerate(zip(claimed, again, strict=True)):
            yield from _differences(f"{place}[{index}]", *pair)
    else:
        both_float = isinstance(claimed, float) and isinstance(again, float)
        if not (_near(claimed, again, _CLOSE) if both_float else claimed == again):
            texts = (json.dumps(value, ensure_ascii=False) for value in (claimed, again))
            said, comes = (x if len(x) <= 120 else f"{x[:119]}…" for x in texts)
            yield f"claims.json says {place} = {said}, and the set comes to {comes}."


def _near(one: float, other: float, share: float) -> bool:
    return abs(one - other) <= share * max(abs(one), abs(other))


# --- Whether the numbers of a warehouse follow from the requests that lie beside them.


#: A window's edges are kept to the microsecond; an edge that is a request's own moment is that moment.
_EDGE_S = 2e-6
#: What rounding to a microsecond may change of a rate, as a share.
_EQUAL = 1e-6
_MOMENTS = ("start", "first_token", "last_token", "end")
#: Counted by the server or stated for each request; what they were computed from stands beside them.
_COUNTED = {"acceptance_rate": "rate", "mean_acceptance_length": "mean_length"}


def recompute(reader: Reader) -> tuple[list[str], int, int]:
    """Compute every canonical measurement of every cell again from its requests, those of excluded
    runs too. Return a sentence for each number that does not follow, how many do, and how many cells
    had no requests to follow from."""
    # What the counts of drafts and accepted tokens come to, cell by cell.
    accepted: dict[str, dict[tuple[str, str], float]] = {}
    for row in queries.acceptance(reader, Filters()).to_pylist():
        for metric, column in _COUNTED.items():
            if row[column] is not None:
                accepted.setdefault(row["cell_id"], {})[metric, "mean"] = row[column]
    wrong: list[str] = []
    numbers = without = 0
    for cell in queries.cells(reader, Filters()).to_pylist():
        cell_id = cell["cell_id"]
        rows = queries.cell_measurements(reader, cell_id).to_pylist()
        known = {
            (r["metric"], r["statistic"]): r["value"] for r in rows if r["origin"] == "canonical"
        }
        if not known:
            without += 1
            continue
        found = dict(accepted.get(cell_id, {}))
        columns = _columns_of_requests(queries.requests(reader, cell_id))
        if len(columns["status"]):
            window = _window(cell, columns)
            values = canonical(columns, window, cell["errored"], cell["completed"])
            found = {(one.metric, one.statistic): one.value for one in values} | found
        numbers += len(known)
        for key, value in sorted(known.items()):
            again = found.get(key)
            if again is None or not _near(again, value, _EQUAL):
                place = f"{cell['arm_label']}, {cell['dataset']}, cell {cell_id}"
                told = "nothing" if again is None else f"{again:,.6g}"
                wrong.append(
                    f"{place}: {key[0]} {key[1]} is {value:,.6g}, and its requests come to {told}."
                )
    return wrong, numbers - len(wrong), without


def _columns_of_requests(rows: pa.Table) -> Columns:
    numbers = {
        field.name: rows.column(field.name).cast(pa.float64()).to_numpy(zero_copy_only=False)
        for field in rows.schema
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
    }
    status = np.array(rows.column("status").to_pylist(), dtype=object)
    inside = rows.column("in_window").to_numpy(zero_copy_only=False)
    return {**numbers, "status": status, "in_window": inside}


def _window(cell: Mapping[str, Any], columns: Columns) -> Window:
    """Return the measured window as ingest had it: only GuideLLM states one."""
    if cell["load_generator"] != "guidellm" or None in (cell["started_at"], cell["duration"]):
        return Window(None, None)
    begin = cell["started_at"].timestamp()
    moments = np.concatenate([columns[name] for name in _MOMENTS])
    moments = moments[~np.isnan(moments)]
    edges = []
    for edge in (begin, begin + cell["duration"]):
        nearest = float(moments[np.argmin(np.abs(moments - edge))])
        edges.append(nearest if abs(nearest - edge) <= _EDGE_S else edge)
    return Window(*edges)
