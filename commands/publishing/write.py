"""A result set for everybody: data, card, metadata, claims, page and a signature, in one folder."""

import json
import shutil
import stat
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from answers.decide.answer import decide
from answers.decide.values import DecideQuestion, decisions_json
from answers.wording import listed, markdown
from commands.publishing import attestation
from warehouse import annotations, queries
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.json_text import json_text
from warehouse.secrets import scrub_text
from warehouse.storage.copies import bundle
from warehouse.storage.files import private_beside, publish, sha256_of
from warehouse.store import Reader

Json = dict[str, Any]
DATA, CLAIMS = "data", "claims.json"
_HERE = Path(__file__).parent
_PAGE = ("index.html", "hyparquet.min.js")


@dataclass(frozen=True)
class PublishedSet:
    """What to publish, under which title and licence (SPDX), by whom; then what it was measured with,
    what it comes to, and what was stated of where it comes from."""

    filters: Filters
    title: str
    licence: str
    by: str
    software: str = ""
    headline: str = ""
    origin: str = ""


def write(
    root: Path, out: Path, about: PublishedSet, key: Ed25519PrivateKey
) -> tuple[int, int, str]:
    """Write the folder ``out``, and return how many cells and files are in it, and the fingerprint of the
    key. Nothing that exists is overwritten, and a failure leaves nothing.

    Raises InvalidInput, also where a text of the warehouse holds a credential; UnknownKey where the
    filters keep no cell.
    """
    if out.exists():
        raise InvalidInput(f"{out} is there already; name a new folder with --out.")
    with private_beside(out) as private:
        folder = private / out.name
        folder.mkdir(parents=True)
        bundle(root, folder / DATA, about.filters)
        _only_exclusions(folder / DATA, about.by)
        _refuse_secrets(folder / DATA)
        with Reader(folder / DATA) as reader:
            results = _results(reader)
            # Readers in a browser know Snappy.
            pq.write_table(results, folder / RESULTS, compression="snappy")
            said = _describe(reader, folder, about, results)
        fingerprint = attestation.sign(folder, said, key)
        publish(folder, out)
    return results.num_rows, sum(path.is_file() for path in out.rglob("*")), fingerprint


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
        rows = pq.read_table(path)
        for field in rows.schema:
            kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            if not pa.types.is_string(kind) or field.name.endswith(("_hash", "_id", "sha256")):
                continue
            texts = [str(text) for text in _unique(rows, field.name) if text is not None]
            if any(scrub_text(text) != text for text in texts):
                raise InvalidInput(
                    f"The column {field.name} of {path.parent.name} holds what looks like a "
                    "credential, so nothing was published; take the results in again with: "
                    "draftboard ingest --rebuild"
                )


def _describe(reader: Reader, folder: Path, about: PublishedSet, results: pa.Table) -> Json:
    """Write what describes the data. Return what the statement says: who measured what with which
    software, as far as the reports state it."""
    made = datetime.now(UTC)
    names = ("model", "gpu", "engine", "engine_version", "load_generator", "evidence", "study")
    stated = {name: sorted(filter(None, _unique(results, name))) for name in names}
    days = sorted(day for day in _unique(results, "started_at") if day is not None)
    found = decide(reader, DecideQuestion())
    ids = _unique(results, "cell_id")
    origins = queries.provenances(reader, ids).column("provenance").to_pylist()
    engines = stated["engine"] + stated["load_generator"]
    about = replace(
        about, software=listed(engines) if engines else "software that was not stated",
        headline=found.decisions[0].headline if found.decisions else (found.why_none or ""),
        origin=" ".join(text for text in origins if text),
    )  # fmt: skip
    description = _croissant(about, folder, results, made.date().isoformat())
    for name, value in ((CLAIMS, claims_json(reader)), ("croissant.json", description)):
        text = json.dumps(value, indent=1, allow_nan=False)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    (folder / "README.md").write_text(_card(about, results), encoding="utf-8")
    for name in _PAGE:
        shutil.copyfile(_HERE / name, folder / name)
    return {
        "published_by": about.by, "title": about.title, "licence": about.licence,
        "published_at": made.isoformat(timespec="seconds"),
        "software": {"draftboard": version("draftboard")},
        "measured": stated | {"cells": results.num_rows},
        "measured_from": days[0].isoformat() if days else None,
        "measured_to": days[-1].isoformat() if days else None,
    }  # fmt: skip


def claims_json(reader: Reader) -> Json:
    """Return the decisions on everything that the warehouse holds."""
    plain: Json = json.loads(
        json_text({"decide": decisions_json(decide(reader, DecideQuestion()))})
    )
    return plain


def _unique(rows: pa.Table, name: str) -> list[Any]:
    found: list[Any] = rows.column(name).unique().to_pylist()
    return found


# --- The table that strangers read first: one row for each cell, with what was measured most often.


RESULTS = "results.parquet"
_FACTS = (
    "cell_id", "study", "model", "precision", "engine", "engine_version", "gpu", "gpu_count",
    "tensor_parallel_size", "dataset", "concurrency", "rate", "arm_label", "spec_method",
    "num_speculative_tokens", "repeat", "evidence", "load_generator", "started_at", "duration",
    "completed", "errored",
)  # fmt: skip
#: Metric, statistic -> the unit stands in docs/definitions.md.
_NUMBERS = (
    ("output_throughput", "mean"), ("request_throughput", "mean"), ("ttft", "p50"),
    ("ttft", "p95"), ("itl", "p50"), ("itl", "p99"), ("request_latency", "p95"),
    ("acceptance_rate", "mean"), ("mean_acceptance_length", "mean"),
)  # fmt: skip


def as_written(reader: Reader, path: Path) -> bool:
    """Return whether the table at ``path`` is what the warehouse comes to."""
    try:
        return bool(pq.read_table(path).equals(_results(reader)))
    except (OSError, pa.ArrowInvalid):
        return False


def _results(reader: Reader) -> pa.Table:
    """Return the table: excluded runs are left out, as in every answer."""
    cells = queries.cells(reader, Filters()).select(_FACTS)
    metrics, statistics = zip(*_NUMBERS, strict=True)
    rows = queries.measurements(reader, Filters(), metrics, statistics).to_pylist()
    known = {(r["cell_id"], r["metric"], r["statistic"]): r["value"] for r in rows}
    ids = cells.column("cell_id").to_pylist()
    for metric, statistic in _NUMBERS:
        values = [known.get((one, metric, statistic)) for one in ids]
        cells = cells.append_column(f"{metric}_{statistic}", pa.array(values, pa.float64()))
    return cells


# --- The description of a set: a card for people, Croissant 1.0 of MLCommons for machines, as JSON-LD.


_TEXT = """
# {title}

{headline}

{cells} cells, measured by {by} with {software}: language models served with and without speculative
decoding, cell by cell. [Open the page](index.html) to look through them, or:

```python
import pandas as pd
pd.read_parquet("{results}")
```

| where | what |
|---|---|
| `{results}` | one row for each cell: what was served, under which load, and what came out |
| `data/` | all of it with every single request, as a warehouse: `draftboard dashboard --warehouse data` |
| `claims.json` | the decisions that these numbers come to |
| `croissant.json` | the same description for machines ([Croissant](https://mlcommons.org/croissant)) |
| `attestation.json` | who measured what with which software, signed ([in-toto](https://in-toto.io)) |

`draftboard verify .` checks the signature and every hash, computes every number again from the requests,
and every claim again from the numbers. Prompts and outputs are not in it, only hashes of the prompts.
{origin}
"""


def _card(about: PublishedSet, results: pa.Table) -> str:
    """Return README.md. Nothing in a name is markup."""
    sizes = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
    size = next((name for most, name in sizes if results.num_rows < most), "100K<n<1M")
    head = {
        "license": about.licence.lower(),
        "pretty_name": about.title,
        "tags": ["speculative-decoding", "benchmark", "llm-inference"],
        "size_categories": [size],
        "configs": [{"config_name": "results", "data_files": RESULTS, "default": True}],
    }
    names = ("title", "headline", "by", "software", "origin")
    told = {name: markdown(getattr(about, name)) for name in names}
    text = _TEXT.format(cells=f"{results.num_rows:,}", results=RESULTS, **told)
    return f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---\n{text}"


_CONTEXT: Json = {
    "@language": "en", "@vocab": "https://schema.org/", "citeAs": "cr:citeAs",
    "column": "cr:column", "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/", "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"}, "extract": "cr:extract",
    "field": "cr:field", "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet", "format": "cr:format", "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key",
    "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path",
    "recordSet": "cr:recordSet", "references": "cr:references", "regex": "cr:regex",
    "repeated": "cr:repeated", "replace": "cr:replace", "sc": "https://schema.org/",
    "separator": "cr:separator", "source": "cr:source", "subField": "cr:subField",
    "transform": "cr:transform",
}  # fmt: skip


def _croissant(about: PublishedSet, folder: Path, results: pa.Table, made: str) -> Json:
    """Return the description of ``results.parquet`` in ``folder``. ``made``: the day, ISO 8601."""
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": about.title,
        "description": f"{about.headline} {about.origin}".strip(),
        "license": f"https://spdx.org/licenses/{about.licence}",
        "creator": {"@type": "sc:Organization", "name": about.by},
        "url": "https://schema.org/Dataset",
        "datePublished": made,
        "version": "1.0.0",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": RESULTS,
                "name": RESULTS,
                "contentUrl": RESULTS,
                "encodingFormat": "application/x-parquet",
                "sha256": sha256_of(folder / RESULTS),
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "results",
                "name": "results",
                "key": {"@id": "results/cell_id"},
                "field": [
                    {
                        "@type": "cr:Field",
                        "@id": f"results/{column.name}",
                        "name": column.name,
                        "dataType": _type(column.type),
                        "source": {
                            "fileObject": {"@id": RESULTS},
                            "extract": {"column": column.name},
                        },
                    }
                    for column in results.schema
                ],
            }
        ],
    }


def _type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:Date" if pa.types.is_timestamp(kind) else "sc:Text"
