"""The dataset card as Hugging Face reads it: what the set is in YAML, then for people."""

from dataclasses import dataclass

import pyarrow as pa
import yaml

from answers.wording import markdown
from commands.publishing.table import RESULTS

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
