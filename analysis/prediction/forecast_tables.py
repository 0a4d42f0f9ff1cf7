"""A forecast as rows of text, and the lines that say how far to trust it."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.prediction.forecast import COMPARED, Forecast
from analysis.prediction.leave_one_out import summary
from analysis.prediction.textbook import Textbook
from analysis.prediction.whatif import Question
from analysis.tables import Table, number, percent
from warehouse.catalogue import METRICS

_WITHHELD = {"k": "K", "concurrency": "load"}


def title(about: Mapping[str, Any], question: Question | None = None) -> str:
    """``eagle3 (draft) on code, model, TP 1, H200: K = 4 at concurrency 8``."""
    parts = [f"{about['family']} on {about['dataset']}", str(about.get("model"))]
    if about.get("tensor_parallel_size") is not None:
        parts.append(f"TP {about['tensor_parallel_size']:g}")
    parts.append(str(about.get("gpu")))
    evidence = about.get("evidence")
    marked = "" if evidence in ("gpu", None) else f" [{evidence}]"
    marked += " [synthetic acceptance]" if about.get("synthetic_acceptance") else ""
    asked = "" if question is None else f": K = {question.k} at concurrency {question.concurrency}"
    return f"{', '.join(parts)}{marked}{asked}"


def values(found: Forecast, cost: Mapping[str, Any] | None) -> Table:
    """A row per predicted metric, beside the baseline's at the same load and lengths."""
    rows = [_line(found, metric) for metric in COMPARED]
    length = number(found.prediction.mean_length, 2)
    rows.append(["Mean acceptance length (tokens/step)", "1.00", length, ""])
    if found.break_even_length is not None:
        rows.append(["… from which it pays", "", number(found.break_even_length, 2), ""])
    if cost is not None:
        usd = cost["usd_per_million_output_tokens"]
        saved = None if usd["baseline"] is None else 1 - usd["predicted"] / usd["baseline"]
        rows.append(["Cost per million output tokens (USD)", number(usd["baseline"], 3),
                     number(usd["predicted"], 3), percent(saved)])  # fmt: skip
    return ["predicted, means", "baseline", "speculative", "improvement"], rows


def trust(found: Forecast) -> list[str]:
    """What leaves the measured range, and the errors of predictions of what was measured."""
    lines = [f"warning: {sentence}" for sentence in found.prediction.warnings]
    lines.append(
        f"The time of a step fits its measurements within {found.residual * 100:.1f} % (root mean "
        f"square), {found.worst_residual * 100:.1f} % at worst."
    )
    errors = summary(found.errors)
    for withheld, word in _WITHHELD.items():
        told = errors[(errors["left_out"] == withheld) & (errors["metric"] == "output_throughput")]
        lines.append(_withheld(word, records(told)))
    return lines


def textbook(found: Textbook) -> Table:
    """Both textbook models, with their parameters."""
    model = found.model
    shares = f"decode share {model.decode_share:g}, cap {model.cap:g}"
    drafts = f"K = {model.num_speculative_tokens}, draft cost {model.draft_cost:g}"
    return ["textbook model", "speedup", "parameters"], [
        [
            "end to end, decoding alone faster",
            f"{found.end_to_end_gain:.2f}",
            f"{drafts}, {shares}",
        ],
        ["one stream, (1 + μ) / ((1 + μ)c + 1)", f"{found.single_stream_speedup:.2f}", drafts],
    ]


def _line(found: Forecast, metric: str) -> list[str]:
    known = METRICS[metric]
    baseline = None if found.baseline is None else getattr(found.baseline, metric)
    return [
        f"{known.label} ({known.unit})",
        number(baseline, known.decimals),
        number(getattr(found.prediction, metric), known.decimals),
        percent(found.improvements.get(metric)),
    ]


def _withheld(word: str, rows: list[dict[str, Any]]) -> str:
    if not rows:
        return f"No {word} could be withheld to check: too few were measured near one another."
    row = rows[0]
    sentence = (
        f"Each {word} withheld in turn ({row['points']} points): output throughput is predicted "
        f"within {row['typical'] * 100:.1f} % (median), {row['worst'] * 100:.1f} % at worst"
    )
    if pd.isna(row["worst_inside"]):
        return f"{sentence}, all of them beyond the rest."
    return f"{sentence}, {row['worst_inside'] * 100:.1f} % between others."
