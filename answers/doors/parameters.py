"""What each question may be asked with: named words, checked, and described for machines.

The names are those of the links and of the commands' options.
"""

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from analysis.choice.operating import EXAMPLES
from analysis.money.cost import Demand
from analysis.money.paying import PRICES, Paying
from analysis.prediction.reach import Question
from answers.cost.values import Terms
from answers.decide.values import DecideQuestion, mix_from
from warehouse.errors import InvalidInput
from warehouse.filters import FILTER_FIELDS, Filters

#: In the place of a subject's name: all subjects.
ALL = "*"
_Word = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]+$")]
_Words = Annotated[tuple[_Word, ...], Field(max_length=50)]
_Positive = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
_Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def _load_text(load: object) -> object:
    return str(load) if isinstance(load, int | float) and not isinstance(load, bool) else load


def _day(text: object) -> date:
    if isinstance(text, str) and len(text) == len("2026-11-21"):
        return date.fromisoformat(text)
    raise ValueError("write a day as 2026-11-21")


#: A load as people write it; a program may say a number.
_Load = Annotated[_Word, BeforeValidator(_load_text)]
#: A day as it is written; a number would be taken for seconds since 1970.
_Day = Annotated[date, BeforeValidator(_day)]


class FilterWords(BaseModel):
    """The filters that every question knows: values to keep, several of each."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: _Words = Field((), description="Models to keep; repeatable.")
    gpu: _Words = Field((), description="GPUs to keep; `unknown` stands for what nobody stated.")
    engine_version: _Words = Field((), description="Engine versions to keep.")
    dataset: _Words = Field((), description="Datasets to keep.")
    tensor_parallel_size: _Words = Field((), description="Tensor parallel sizes to keep.")
    arm: _Words = Field((), description="Arms to keep, e.g. `baseline` or `eagle3 K=3`.")
    study: _Words = Field((), description="Studies to keep.")
    since: _Day | None = Field(None, description="First day (UTC) on which a cell started.")
    until: _Day | None = Field(None, description="Last such day.")

    def filters(self) -> Filters:
        """Return the filters as queries take them."""
        days = {
            name: day.isoformat() for name in ("since", "until") if (day := getattr(self, name))
        }
        return Filters(**{name: getattr(self, name) for name in FILTER_FIELDS}, **days)


class NoWords(BaseModel):
    """A question without words."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Page(BaseModel):
    """Which part of the list of an answer is told."""

    model_config = ConfigDict(frozen=True)

    limit: Annotated[int, Field(ge=1, le=1000)] = Field(100, description="How many at most.")
    offset: Annotated[int, Field(ge=0, le=10**9)] = Field(0, description="How many are left out.")


class _SubjectWords(FilterWords):
    subject: _Word | None = Field(
        None, description="One of `subjects` by its name; `*`: all. Without it: the first."
    )


class CompareWords(_SubjectWords):
    """What ``draftboard compare`` takes."""

    allow: _Words = Field((), description="Fields in which pairs may differ.")
    metrics: _Words = Field((), description="Lines beside the study's table, e.g. `ttft:p99`.")
    reference: _Word = Field("baseline", description="The arm that others are compared with.")


class DecideWords(_SubjectWords):
    """What ``draftboard verdict`` takes."""

    load: _Load | None = Field(None, description=f"Your load: {EXAMPLES}.")
    slo: _Word | None = Field(None, description="Only arms that meet it: `ttft:p95<200ms`.")
    objective: Literal["throughput", "latency", "cost"] = Field(
        "throughput", description="What the choice is for."
    )
    mix: _Word | None = Field(None, description="Your traffic: `code=0.7,prose=0.3`.")
    allow: _Words = Field((), description="Fields in which pairs may differ.")
    nowhere_worse: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = Field(
        None, description="A yes allows no interval to reach further below zero than this (0-1)."
    )

    def question(self) -> DecideQuestion:
        """Return the question. Raises InvalidInput for a mix that is none."""
        return DecideQuestion(
            self.filters(), self.objective, self.load, self.slo, mix_from(self.mix), self.allow,
            self.nowhere_worse,
        )  # fmt: skip


class PriceWords(BaseModel):
    """What GPUs cost."""

    usd_per_hour: _Positive | None = Field(None, description="USD per hour of an instance.")
    gpus_per_instance: Annotated[int, Field(gt=0, le=1024)] | None = Field(
        None, description="GPUs that this price buys."
    )
    gpus_used: Annotated[int, Field(gt=0, le=100_000)] | None = Field(
        None, description="GPUs behind the throughput, if not as recorded."
    )
    utilisation: _Share = Field(1.0, description="Share of the paid time that is so busy.")
    price: _Word | None = Field(None, description="A price of the list, by its name.")

    def paying(self) -> Paying:
        """Return what is paid."""
        return Paying(
            self.usd_per_hour, self.gpus_per_instance, self.gpus_used, self.utilisation,
            self.price, PRICES,
        )  # fmt: skip


class CostWords(DecideWords, PriceWords):
    """What ``draftboard cost`` takes."""

    tokens_per_day: _Positive | None = Field(None, description="Output tokens to serve a day.")
    peak_to_mean: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = Field(
        1.0, description="The busiest hour over the mean."
    )
    whole_instances: bool = Field(False, description="GPUs are rented by the instance only.")
    investment: _Positive | None = Field(None, description="USD spent once, for the break-even.")
    request_tokens: int | None = Field(
        None,
        ge=1,
        description="Tokens of a request, prompt and answer, for the room in the KV cache.",
    )

    def terms(self) -> Terms:
        """Return how money is counted."""
        demand = self.tokens_per_day and Demand(self.tokens_per_day, self.peak_to_mean)
        return Terms(
            self.paying(),
            demand or None,
            self.whole_instances,
            self.investment,
            self.request_tokens,
        )


class SloWords(FilterWords):
    """What ``draftboard slo`` takes."""

    slo: _Word = Field(description="The service level: `ttft:p95<200ms; itl:p99<10ms`.")
    goodput: bool = Field(False, description="Read the requests and count the good ones.")


class PredictWords(FilterWords, PriceWords):
    """What ``draftboard whatif`` takes."""

    k: Annotated[int, Field(ge=0, le=64)] = Field(description="Draft tokens; 0: none.")
    concurrency: Annotated[int, Field(ge=1, le=100_000)] = Field(description="Requests at once.")
    acceptance_rate: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Instead of the measured one."
    )
    mean_acceptance_length: Annotated[float, Field(ge=1, le=65)] | None = Field(
        None, description="Instead of the rate; with bonus token."
    )
    prompt_tokens: Annotated[float, Field(gt=0, le=1e7)] | None = Field(
        None, description="Per request, if not as measured."
    )
    output_tokens: Annotated[float, Field(gt=0, le=1e7)] | None = Field(
        None, description="Per request, if not as measured."
    )

    def asked(self) -> Question:
        """Return what is asked. Raises InvalidInput where two words say the same."""
        if self.acceptance_rate is not None and self.mean_acceptance_length is not None:
            raise InvalidInput("acceptance_rate and mean_acceptance_length say the same; give one.")
        return Question(
            self.k, self.concurrency, self.acceptance_rate, self.mean_acceptance_length,
            self.prompt_tokens, self.output_tokens,
        )  # fmt: skip


class TrendsWords(FilterWords):
    """What ``draftboard gate`` takes."""

    max_regression: _Words = Field(
        (), description="How much worse is still fine: `itl=3%`, or `5%` for all."
    )


def problems_of(error: ValidationError) -> str:
    """Return what is wrong with the words of a question, each by its name."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems)


def schema_json(parameters: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a question's words, each with its description."""
    schema = parameters.model_json_schema()
    return {"type": "object", "additionalProperties": False} | {
        name: schema[name] for name in ("properties", "required") if name in schema
    }
