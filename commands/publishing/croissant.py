"""The description of a set for machines: Croissant 1.0 of MLCommons, as JSON-LD."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from commands.publishing.card import About
from commands.publishing.table import RESULTS
from warehouse.store_files import sha256_of

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
