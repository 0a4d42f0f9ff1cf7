"""One adapter per report format; adding a format is adding a file and naming it here."""

from typing import cast

from ingest.formats import guidellm, vllm_bench, vllm_sweep
from ingest.model import Format

#: Asked in this order; the first that recognises the bytes reads them.
FORMATS: tuple[Format, ...] = tuple(cast(Format, m) for m in (guidellm, vllm_sweep, vllm_bench))
