"""A forecast as values and as JSON, and two textbook models beside it. None is unknown."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from analysis.money.cost import Basis
from analysis.money.paying import Refusal
from analysis.prediction.posterior import LEVEL
from analysis.prediction.reach import Textbook, both
from analysis.prediction.step_time import Choice
from analysis.prediction.trials import LeftOut, Withheld
from analysis.prediction.whatif import Model


@dataclass(frozen=True)
class ForecastPlace:
    """One arm family, whatever its K, on one dataset of one system (``analysis.matching.arms``)."""

    system: int
    family: str
    dataset: str
    model: str | None
    gpu: str | None
    gpu_count: int | None
    tensor_parallel_size: int | None
    evidence: str | None
    synthetic_acceptance: bool | None


@dataclass(frozen=True)
class ForecastQuestion:
    """What a reader asks. ``rate``: accepted / drafted tokens (0-1), or ``length``: tokens of a
    step; ``prompt`` and ``output``: tokens of a request. None: as measured."""

    k: int
    load: int
    rate: float | None = None
    length: float | None = None
    prompt: float | None = None
    output: float | None = None

    @property
    def as_measured(self) -> bool:
        """Whether the question names only K and load, and leaves the rest as measured."""
        return self.rate is self.length is self.prompt is self.output is None


@dataclass(frozen=True)
class AskableSpan:
    """What may be asked: from ``low`` to ``high``; ``usual``: the mean of what was measured."""

    low: int
    high: int
    usual: int


@dataclass(frozen=True)
class AskableQuestions:
    """What may be asked of a place, and the K and load to begin with. ``prompts_count``: whether
    the results tell what a prompt token costs; ``accepts``: whether acceptance was measured;
    ``k_range`` and ``load_range``: the lowest and the highest that was measured."""

    ks: tuple[int, ...]
    loads: tuple[int, ...]
    prompt: AskableSpan
    output: AskableSpan
    start: tuple[int, int]
    prompts_count: bool
    accepts: bool
    k_range: tuple[int, int]
    load_range: tuple[int, int]


@dataclass(frozen=True)
class MeasuredPoint:
    """What was measured at one K (0: the baseline) and load: means over ``repeats``."""

    k: int
    load: int
    repeats: int
    output_throughput: float
    itl: float
    ttft: float


@dataclass(frozen=True, eq=False)
class FittedPlace:
    """What forecasts of one place are computed from. ``withheld``: every measured point that was
    predicted from the others."""

    place: ForecastPlace
    offer: AskableQuestions
    points: tuple[MeasuredPoint, ...]
    withheld: tuple[Withheld, ...]
    model: Model


@dataclass(frozen=True)
class ForecastFigure:
    """One metric in the catalogue's unit. ``low`` and ``high``: the band, None where nothing is
    known of the error; ``baseline``: predicted without drafts; ``improvement``: ratio, positive is
    better; ``compared``: whether the metric was measured at loads at all."""

    metric: str
    predicted: float
    low: float | None
    high: float | None
    measured: float | None
    baseline: float | None
    improvement: float | None
    compared: bool


@dataclass(frozen=True)
class ForecastCost:
    """USD per million output tokens, with its basis."""

    basis: Basis
    predicted: float
    baseline: float | None

    @property
    def sentence(self) -> str:
        """The basis of the cost, in a sentence."""
        return self.basis.sentence


@dataclass(frozen=True)
class Check:
    """How far predictions of withheld points were off (ratios), one metric. ``worst_inside``: of
    those that the rest surrounds; ``held``: how many lay within their bands."""

    left_out: LeftOut
    metric: str
    points: int
    typical: float
    worst: float
    typical_inside: float | None
    worst_inside: float | None
    held: int


@dataclass(frozen=True)
class ForecastAnswer:
    """One forecast with what a reader must know of it. ``warnings``: how the question leaves what
    was measured; ``trust``: how far to believe it; ``laws``: what a step's time was taken to
    follow, with the errors of withheld points; ``cost``: None where no price was given;
    ``residual`` and ``worst_residual``: relative errors of the fit on its own data."""

    place: ForecastPlace
    asked: ForecastQuestion
    headline: str
    figures: tuple[ForecastFigure, ...]
    mean_length: float
    break_even_length: float | None
    warnings: tuple[str, ...]
    trust: tuple[str, ...]
    laws: tuple[Choice, ...]
    residual: float
    worst_residual: float
    checks: tuple[Check, ...]
    withheld: tuple[Withheld, ...]
    cost: ForecastCost | Refusal | None = None
    level: float = field(default=LEVEL)


@dataclass(frozen=True)
class RefusedForecast:
    """A place for which there is no forecast, and why."""

    place: ForecastPlace
    reason: str


@dataclass(frozen=True)
class ForecastStep:
    """One point of a line: a K, a load, what is predicted there. ``beyond``: whether anything of
    the question lies beyond what was measured."""

    k: int
    load: int
    figures: tuple[ForecastFigure, ...]
    beyond: bool

    def of(self, metric: str) -> ForecastFigure:
        """Return the figure of one metric."""
        return next(figure for figure in self.figures if figure.metric == metric)


@dataclass(frozen=True)
class ForecastLines:
    """Predictions over the load at the asked K and without drafts (none without a baseline), and
    over K at the asked load."""

    over_load: tuple[ForecastStep, ...]
    baseline: tuple[ForecastStep, ...]
    over_k: tuple[ForecastStep, ...]


@dataclass(frozen=True)
class TextTable:
    """Rows of text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


# --- Forecasts as JSON. Unknown is null.


def as_json(found: Sequence[ForecastAnswer | RefusedForecast]) -> dict[str, Any]:
    """Return ``forecasts``, and ``refused`` with the reason of each, as a dict for JSON."""
    return {
        "forecasts": [_answer(one) for one in found if isinstance(one, ForecastAnswer)],
        "refused": [
            {**_place(one.place), "reason": one.reason}
            for one in found
            if isinstance(one, RefusedForecast)
        ],
    }


def _place(place: ForecastPlace) -> dict[str, Any]:
    facts = asdict(place)
    del facts["system"]  # A number of this one answer.
    return facts


def _answer(found: ForecastAnswer) -> dict[str, Any]:
    asked = {"k": found.asked.k, "concurrency": found.asked.load}
    now = {figure.metric: figure.predicted for figure in found.figures}
    before = {figure.metric: figure.baseline for figure in found.figures}
    return {
        **_place(found.place),
        "headline": found.headline,
        "prediction": asked | now | {
            "mean_length": found.mean_length, "warnings": list(found.warnings),
        },
        "bands": {"level": found.level} | {
            figure.metric: None if figure.low is None else [figure.low, figure.high]
            for figure in found.figures
        },
        "baseline": None if before["output_throughput"] is None else before,
        "improvements": {figure.metric: figure.improvement for figure in found.figures},
        "break_even_length": found.break_even_length,
        "fit": {
            "residual": found.residual, "worst_residual": found.worst_residual,
            "laws": [asdict(law) for law in found.laws],
        },
        "leave_one_out": [asdict(check) for check in found.checks],
        "withheld": [
            asdict(one) | {"error": one.error, "held": one.held} for one in found.withheld
        ],
        "trust": list(found.trust),
        "cost": _cost(found.cost) if isinstance(found.cost, ForecastCost) else None,
        "no_cost": found.cost.sentence if isinstance(found.cost, Refusal) else None,
    }  # fmt: skip


def _cost(cost: ForecastCost) -> dict[str, Any]:
    return {
        "basis": cost.basis.as_json(),
        "usd_per_million_output_tokens": {"predicted": cost.predicted, "baseline": cost.baseline},
    }


# --- What two textbook models say where nothing is measured.


NOT_MEASURED = "Textbook models: no measurement stands behind these figures."
END_TO_END, ONE_STREAM = "end to end", "one stream"


@dataclass(frozen=True)
class TextbookParameters:
    """What both models are told. ``rate`` and ``decode_share`` are 0-1; ``text``: a key of
    ``DECODE_CAPS``; ``draft_cost``: of a drafted token over a step of the target."""

    rate: float
    k: int
    text: str
    decode_share: float
    draft_cost: float

    def found(self, rate: float | None = None) -> Textbook:
        """Return what both models say; ``rate``: another acceptance rate. Raises InvalidInput for a
        rate outside 0-1."""
        chosen = self.rate if rate is None else rate
        return both(chosen, self.k, self.text, self.decode_share, self.draft_cost)


def headline(given: TextbookParameters) -> str:
    """Say in a sentence which speedup both models give."""
    found = given.found()
    return (
        f"At an acceptance rate of {given.rate:.0%} textbook models say: "
        f"{found.end_to_end_gain:.2f} times as fast {END_TO_END}, "
        f"{found.single_stream_speedup:.2f} times as fast {ONE_STREAM}."
    )


def table(given: TextbookParameters) -> TextTable:
    """Return a row per model: its speedup and its parameters."""
    found, drafts = given.found(), f"K = {given.k}, draft cost {given.draft_cost:g}"
    shares = f"decode share {given.decode_share:g}, cap {found.model.cap:g}"
    return TextTable(
        ("textbook model", "speedup", "parameters"),
        (
            (f"{END_TO_END}, decoding alone faster", f"{found.end_to_end_gain:.2f}",
             f"{drafts}, {shares}"),
            (f"{ONE_STREAM}, (1 + μ) / ((1 + μ)c + 1)", f"{found.single_stream_speedup:.2f}",
             drafts),
        ),
    )  # fmt: skip
