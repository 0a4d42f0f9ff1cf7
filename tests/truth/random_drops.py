"""Random studies as the files that runners leave behind."""

import json
from pathlib import Path

from tests.truth.drops import One, write_drop
from tests.truth.frames import AT_A_RATE, FACTS, OUTPUT
from tests.truth.random_frames import cell_rows
from tests.truth.random_studies import RandomStudy

_RECORDED = ("study", "model", "dataset", "repeat", "launch", "spec_method")


def write_random_study(study: RandomStudy, folder: Path) -> None:
    """Every cell of a study: its record, and a report of all requests at a rate, else of few."""
    kind = study.loads[0].kind if study.rates else "sampled"
    for number, row in enumerate(cell_rows(study).to_dict("records")):
        facts = {**FACTS, **{name: row[name] for name in _RECORDED}}
        if isinstance(row["speculative_config"], str):
            config = json.loads(row["speculative_config"])
            facts |= {
                "speculative_config": config,
                "num_speculative_tokens": config["num_speculative_tokens"],
            }
        latency, asked = row["latency"], row["asked"]
        spent = (AT_A_RATE - 1) / asked + latency if study.rates else latency
        one = One(
            facts, 0, asked, row["started_at"].timestamp(), latency, row["first"],
            (AT_A_RATE if study.rates else asked) * OUTPUT / spent,
        )  # fmt: skip
        write_drop(one, folder / f"{number}", kind)
