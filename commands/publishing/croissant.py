"""The description of a set for machines: Croissant 1.0 of MLCommons, as JSON-LD."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from answers.wording import markdown
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader
from warehouse.store_files import sha256_of

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


def write(reader: Reader, path: Path) -> pa.Table:
    """Write and return the table; Snappy, since readers in a browser know it."""
    found = results(reader)
    pq.write_table(found, path, compression="snappy")
    return found


def as_written(reader: Reader, path: Path) -> bool:
    """Return whether the table at ``path`` is what the warehouse comes to."""
    try:
        return bool(pq.read_table(path).equals(results(reader)))
    except (OSError, pa.ArrowInvalid):
        return False


def results(reader: Reader) -> pa.Table:
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


# --- The description of a set for machines: Croissant 1.0 of MLCommons, as JSON-LD.


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


@dataclass(frozen=True)
class About:
    """What a set is called and under which licence it is (an SPDX name, in small letters)."""

    title: str
    licence: str
    by: str
    software: str
    headline: str
    origin: str
    cells: int


def card(about: About, results: pa.Table) -> str:
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
    told = {
        name: markdown(getattr(about, name))
        for name in ("title", "headline", "by", "software", "origin")
    }
    text = _TEXT.format(cells=f"{about.cells:,}", results=RESULTS, **told)
    return f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---\n{text}"


Json = dict[str, Any]
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


def croissant(about: About, folder: Path, results: pa.Table, made: str) -> Json:
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
                "field": [_field(one) for one in results.schema],
            }
        ],
    }


def _field(one: pa.Field) -> Json:
    return {
        "@type": "cr:Field",
        "@id": f"results/{one.name}",
        "name": one.name,
        "dataType": _type(one.type),
        "source": {"fileObject": {"@id": RESULTS}, "extract": {"column": one.name}},
    }


def _type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:Date" if pa.types.is_timestamp(kind) else "sc:Text"
