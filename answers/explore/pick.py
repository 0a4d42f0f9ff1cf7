"""What a reader chooses for a free chart: a number, what it stands over, and what tells marks apart."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "time", "text", "several"]


@dataclass(frozen=True)
class Key:
    """A column of the view ``cells`` that a chart can be laid out by; ``several``: of many columns,
    whose texts are joined."""

    label: str
    column: str
    kind: Kind


#: The columns that say what was measured; two cells that differ in one are never the same setting.
SUBJECT = ("model", "gpu", "tensor_parallel_size", "dataset")
#: Label -> key, in the order in which they are offered.
KEYS: dict[str, Key] = {
    key.label: key
    for key in (
        Key("Concurrency", "concurrency", "number"),
        Key("Draft tokens K", "num_speculative_tokens", "number"),
        Key("Arm", "arm_label", "text"),
        Key("Setting", ", ".join(SUBJECT), "several"),
        Key("Dataset", "dataset", "text"),
        Key("Tensor parallel size", "tensor_parallel_size", "number"),
        Key("Model", "model", "text"),
        Key("GPU", "gpu", "text"),
        Key("GPUs", "gpu_count", "number"),
        Key("Engine version", "engine_version", "text"),
        Key("Method", "spec_method", "text"),
        Key("Draft model", "draft_model", "text"),
        Key("Precision", "precision", "text"),
        Key("Study", "study", "text"),
        Key("Repeat", "repeat", "number"),
        Key("Request rate", "rate", "number"),
        Key("Load generator", "load_generator", "text"),
        Key("Evidence", "evidence", "text"),
        Key("Start time", "started_at", "time"),
    )
}

EACH = "each cell"
#: How the cells of one mark become one number -> its SQL.
AGGREGATIONS: dict[str, str] = {
    "median": "median(y)",
    "mean": "avg(y)",
    "geometric mean": "case when min(y) > 0 then exp(avg(ln(greatest(y, 1e-300)))) end",
    "minimum": "min(y)",
    "maximum": "max(y)",
    EACH: "any_value(y)",
}


@dataclass(frozen=True)
class Amount:
    """A metric of the catalogue at one statistic."""

    metric: str
    statistic: str


@dataclass(frozen=True)
class Pick:
    """One chart: ``y`` over ``x`` (a key or another amount), told apart by the key ``series``,
    a panel for each value of the key ``panel`` (None: one), cells pooled by ``how``."""

    y: Amount
    x: Key | Amount
    series: Key
    panel: Key | None
    how: str
