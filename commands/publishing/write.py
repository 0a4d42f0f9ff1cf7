"""A result set for everybody: data, card, metadata, claims, page and a signature, in one folder."""

import json
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from answers.decide.answer import decide
from answers.decide.values import Question
from answers.publication.claims import claims_json
from answers.wording import listed
from commands.publishing import attestation
from commands.publishing import croissant as table
from commands.publishing.croissant import About, card, croissant
from warehouse import annotations, queries
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.secrets import scrub_text
from warehouse.store import Reader
from warehouse.store_copies import bundle
from warehouse.store_files import private_beside, publish

DATA, CLAIMS = "data", "claims.json"
_HERE = Path(__file__).parent
_PAGE = ("index.html", "hyparquet.min.js")


@dataclass(frozen=True)
class Asked:
    """What to publish, under which name and licence (SPDX), by whom."""

    filters: Filters
    title: str
    licence: str
    by: str


@dataclass(frozen=True)
class Published:
    """What was written. ``key``: fingerprint of the key that signed it."""

    cells: int
    files: int
    key: str


def write(root: Path, out: Path, asked: Asked, key: Ed25519PrivateKey) -> Published:
    """Write the folder ``out``. Nothing that exists is overwritten, and a failure leaves nothing.

    Raises InvalidInput, also where a text of the warehouse holds a credential; UnknownKey where the
    filters keep no cell.
    """
    if out.exists():
        raise InvalidInput(f"{out} is there already; name a new folder with --out.")
    with private_beside(out) as private:
        place = private / out.name
        place.mkdir(parents=True)
        bundle(root, place / DATA, asked.filters)
        _only_exclusions(place / DATA, asked.by)
        _refuse_secrets(place / DATA)
        with Reader(place / DATA) as reader:
            cells, said = _describe(reader, place, asked)
        fingerprint = attestation.sign(place, said, key)
        publish(place, out)
    return Published(cells, sum(path.is_file() for path in out.rglob("*")), fingerprint)


def _only_exclusions(data: Path, by: str) -> None:
    """Leave out notes, which were said among colleagues, and who excluded what: an answer stands on
    the exclusions themselves."""
    path = data / annotations.FILE
    if not path.exists():
        return
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kept = [json.dumps(one | {"author": by}) for one in events if one["action"] != "note"]
    path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def _refuse_secrets(data: Path) -> None:
    """Look through every text once more with the scrubber of this version: a warehouse may have been
    filled by an older one. Raises InvalidInput."""
    for path in sorted(data.rglob("*.parquet")):
        for name, texts in _texts(pq.read_table(path)):
            if any(scrub_text(text) != text for text in texts):
                raise InvalidInput(
                    f"The column {name} of {path.parent.name} holds what looks like a credential, so "
                    "nothing was published; take the results in again with: draftboard ingest "
                    "--rebuild"
                )


def _texts(rows: pa.Table) -> Iterator[tuple[str, list[str]]]:
    for field in rows.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_string(kind) and not field.name.endswith(("_hash", "_id", "sha256")):
            unique = rows.column(field.name).unique().to_pylist()
            yield field.name, [str(text) for text in unique if text is not None]


def _describe(reader: Reader, place: Path, asked: Asked) -> tuple[int, dict[str, Any]]:
    """Write all but the data. Return the number of cells, and what the statement says."""
    results = table.write(reader, place / table.RESULTS)
    made = datetime.now(UTC)
    said = _said(results, asked, made)
    found = decide(reader, Question())
    headline = found.decisions[0].headline if found.decisions else (found.why_none or "")
    ids = _unique(results, "cell_id")
    origins = queries.provenances(reader, ids).column("provenance").to_pylist()
    origin = " ".join(text for text in origins if text)
    engines = said["measured"]["engine"] + said["measured"]["load_generator"]
    software = listed(engines) if engines else "software that was not stated"
    about = About(
        asked.title, asked.licence, asked.by, software, headline, origin, results.num_rows
    )
    _write_json(place / CLAIMS, claims_json(reader))
    _write_json(place / "croissant.json", croissant(about, place, results, made.date().isoformat()))
    (place / "README.md").write_text(card(about, results), encoding="utf-8")
    for name in _PAGE:
        shutil.copyfile(_HERE / name, place / name)
    return results.num_rows, said


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _said(results: pa.Table, asked: Asked, made: datetime) -> dict[str, Any]:
    """Return who measured what with which software, as far as the reports state it."""
    names = ("model", "gpu", "engine", "engine_version", "load_generator", "evidence", "study")
    stated = {name: sorted(filter(None, _unique(results, name))) for name in names}
    days = sorted(one for one in _unique(results, "started_at") if one is not None)
    return {
        "published_by": asked.by, "title": asked.title, "licence": asked.licence,
        "published_at": made.isoformat(timespec="seconds"),
        "software": {"draftboard": version("draftboard")},
        "measured": stated | {"cells": results.num_rows},
        "measured_from": days[0].isoformat() if days else None,
        "measured_to": days[-1].isoformat() if days else None,
    }  # fmt: skip


def _unique(rows: pa.Table, name: str) -> list[Any]:
    found: list[Any] = rows.column(name).unique().to_pylist()
    return found
