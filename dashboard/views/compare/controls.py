"""What the Compare page is asked: which cells are paired, in which metric, and drawn as what."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from analysis.matching.comparison import STUDY_TABLE
from analysis.matching.fields import MATCH_FIELDS, stated_arguments
from answers.compare.values import CompareQuestion, MetricLine
from answers.ground import JUDGED
from warehouse.catalogue import METRICS, STATISTICS, Metric, percentile_label
from warehouse.filters import Filters

#: Metrics that other places show: a baseline has none of them, or they judge a cell or its machine.
_ELSEWHERE = (
    "request_attainment", "error_rate", "acceptance_rate", "mean_acceptance_length", "gpu_clock",
    "gpu_power", "cpu_clock", "cpu_steal", "launches_beside", "repeating_answers", "json_answers",
)  # fmt: skip
#: The metrics that can be drawn, those of the study's table first.
_CHARTED = dict.fromkeys(
    (*(metric for metric, _ in STUDY_TABLE), *(key for key in METRICS if key not in _ELSEWHERE))
)
_LABELS = {METRICS[key].label: key for key in _CHARTED}
_OF_LATENCIES = {statistic for metric, statistic in JUDGED if METRICS[metric].distribution}
_STATISTICS = {percentile_label(name): name for name in STATISTICS if name in _OF_LATENCIES}
_RELATIVE, _ABSOLUTE = "Improvement, %", "Own unit"


@dataclass(frozen=True)
class OneMetric:
    """A metric with its statistic; ``absolute``: drawn in its own unit."""

    line: MetricLine
    absolute: bool


def question(arms: list[str], filters: Filters, cells: pd.DataFrame) -> CompareQuestion:
    """Ask which cells are compared with which; folded, since most readers change nothing here.
    ``cells``: of them any server argument may be allowed alone."""
    with st.expander("Which cells are compared?"):
        left, right = st.columns([1, 2])
        reference: str = left.selectbox("Compared with", arms, key="reference", bind="query-params")
        allowed: list[str] = right.multiselect(
            "Cells are paired when they are equal in everything but the speculation. "
            "Also pair cells that differ in",
            [*MATCH_FIELDS, *stated_arguments(cells)], key="allow", bind="query-params", placeholder="nothing else",
        )  # fmt: skip
    return CompareQuestion(filters, tuple(sorted(allowed)), reference, _also())


def one_metric() -> OneMetric:
    """Ask for the metric that is drawn for every setting."""
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    metric = METRICS[
        _LABELS[left.selectbox("Metric", list(_LABELS), key="metric", bind="query-params")]
    ]
    names = list(_STATISTICS)
    statistic = middle.selectbox(
        "Statistic of latencies",
        names,
        index=names.index("median"),
        key="statistic",
        bind="query-params",
    )
    view = right.segmented_control(
        "Drawn as", [_RELATIVE, _ABSOLUTE], default=_RELATIVE, required=True,
        disabled=metric.better == "neither", key="view", bind="query-params",
    )  # fmt: skip
    absolute = view == _ABSOLUTE or metric.better == "neither"
    return OneMetric((metric.key, _shown(metric, _STATISTICS[statistic])), absolute)


def _also() -> tuple[MetricLine, ...]:
    """Return the lines beside those of the study's table that the metric's controls ask for."""
    key = _LABELS.get(str(st.session_state.get("metric", st.query_params.get("metric"))))
    told = str(st.session_state.get("statistic", st.query_params.get("statistic", "median")))
    line = None if key is None else (key, _shown(METRICS[key], _STATISTICS.get(told, "p50")))
    return () if line is None or line in STUDY_TABLE else (line,)


def _shown(metric: Metric, statistic: str) -> str:
    """Return the chosen statistic where the metric has a distribution, else its mean."""
    return statistic if metric.distribution else "mean"
