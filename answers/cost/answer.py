"""From decisions to money, at the operating load of each: savings are the decision's own."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import exp, inf, isnan, log, nan
from statistics import fmean

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, Word
from analysis.flags.lints import CAPPED
from analysis.frames import listed, plain, records
from analysis.matching import fields
from analysis.matching.arms import BASELINE, config_of
from analysis.money import cost as money
from analysis.money.cost import HOURS_PER_YEAR, Basis, Fleet, break_even, usd_per_million
from analysis.money.paying import Hardware, Refusal, basis_of
from answers.cost import words as said
from answers.cost.values import (
    ArmCost,
    ArmEnergy,
    CacheRoom,
    CostPoint,
    Costs,
    DecisionCost,
    SavedAmount,
    Terms,
)
from answers.decide.values import ArmAtLoad, ArmDifference, Decision, Decisions, Saving
from answers.wording import UNKNOWN, known
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store import Reader

# --- Energy of both arms of each cost, where the power of the GPUs was recorded.


@dataclass(frozen=True)
class _Used:
    """What cells of one arm took and made: joules, seconds, output tokens, tokens of all, decode steps
    (output tokens / acceptance length), seconds at the limit of power, samples of it; NaN: unknown."""

    joules: float = 0.0
    seconds: float = 0.0
    output: float = 0.0
    total: float = 0.0
    steps: float = 0.0
    limited: float = 0.0
    samples: int = 0
    limit_watts: float = nan

    def __add__(self, other: "_Used") -> "_Used":
        return _Used(
            self.joules + other.joules, self.seconds + other.seconds, self.output + other.output,
            self.total + other.total, self.steps + other.steps, self.limited + other.limited,
            self.samples + other.samples,
            other.limit_watts,
        )  # fmt: skip

    def energy(self, apart: tuple[float, float] | None) -> ArmEnergy:
        """Return it per token. ``apart``: joules of a prompt token and of a step."""
        prefill, step = apart or (None, None)
        return ArmEnergy(
            self.joules / self.output, plain(self.joules / self.total), self.joules / self.seconds,
            self.samples, plain(self.limit_watts), plain(self.limited / self.seconds),
            prefill, None if step is None else step * self.steps / self.output,
        )  # fmt: skip


def with_energy(reader: Reader, costs: Costs) -> Costs:
    """Add energy to each cost, measured over the cells at the operating load; None where one has no
    power recorded before, in and after its load. A mix of datasets has no energy of its own. Prefill and
    decode are told apart where traffics of one subject differ enough in their lengths."""
    cells = [_cells(row) for row in costs.rows]
    models = sorted({known(row.decision.subject.model) for row in costs.rows})
    wanted = {cell for sides in cells for side in sides for cell in side}
    by_cell = dict(_used(reader, Filters(model=tuple(models)), wanted)) if wanted else {}
    used = [tuple(_pooled(by_cell, ids) for ids in pair) for pair in cells]
    # The baseline of one subject and load is one, whatever is compared with it.
    arms = [
        [(row.decision.subject, row.load, arm) for arm in (BASELINE, row.arm)] for row in costs.rows
    ]
    beside: dict[object, list[tuple[float, float, float]]] = defaultdict(list)
    for key, one in zip(chain(*arms), chain(*used), strict=True):
        beside[key] += [(one.total - one.output, one.steps, one.joules)] if one else []
    apart = {key: money.prefill_and_decode(those) for key, those in beside.items()}
    rows = []
    for row, keys, pair in zip(costs.rows, arms, used, strict=True):
        old, new = (
            None if one is None else one.energy(apart[key])
            for one, key in zip(pair, keys, strict=True)
        )
        rows.append(replace(
            row, baseline=_per_token(row.baseline, old), energy=None if old is None or new is None else (old, new),
            speculative=_per_token(row.speculative, new if row.decision.operating.drafts else old),
        ))  # fmt: skip
    return replace(costs, rows=tuple(rows))


def _per_token(arm: ArmCost | None, energy: ArmEnergy | None) -> ArmCost | None:
    if arm is None or energy is None:
        return arm
    return replace(arm, joules_per_output_token=energy.joules_per_output_token)


def _cells(row: DecisionCost) -> tuple[list[str], ...]:
    here = [cell for cell in row.decision.arms if (cell.load, cell.arm) == (row.load, row.arm)]
    pairs = () if row.decision.traffic.mix else {pair for cell in here for pair in cell.pairs}
    return tuple(sorted({pair[side] for pair in pairs}) for side in (0, 1))


def _pooled(by_cell: Mapping[str, _Used], cells: Sequence[str]) -> _Used | None:
    if not cells or not by_cell.keys() >= set(cells):
        return None
    return sum((by_cell[cell] for cell in cells), _Used())


def _used(reader: Reader, filters: Filters, wanted: set[str]) -> Iterator[tuple[str, _Used]]:
    """Yield the cells of ``wanted`` whose power was recorded, and what they took."""
    rates = queries.measurements(reader, filters, _TOKENS, ["mean"]).to_pandas()
    per_second = rates.pivot_table(index="cell_id", columns="metric", values="value")
    lengths = queries.acceptance(reader, filters).to_pandas().groupby("cell_id")["mean_length"]
    rows = queries.cells(reader, filters).to_pandas().set_index("cell_id", drop=False)
    rows = rows.join(per_second.reindex(columns=_TOKENS)).join(lengths.first())
    mine = rows[rows.index.isin(wanted)].dropna(subset=["started_at", "duration", _TOKENS[0]])
    limits = _limits(reader, filters)
    for row in records(mine):
        begin, lasted = row["started_at"].timestamp(), float(row["duration"])
        samples = queries.samples(reader, row["cell_id"]).to_pandas()
        taken = money.joules(samples, (begin, begin + lasted))
        if taken is None:
            continue
        output, total = (float(row[name]) * lasted for name in _TOKENS)
        length = 1.0 if row["spec_method"] == "none" else float(row["mean_length"])
        at_limit = samples.loc[samples["name"] == CAPPED, "value"]
        yield row["cell_id"], _Used(
            taken, lasted, output, total, output / length, float(at_limit.mean()) * lasted, samples.loc[samples["name"] == money.POWER, "at"].nunique(),
            limits.get(row["source_id"], nan),
        )  # fmt: skip


#: What a server makes in a second, and what it takes in and makes.
_TOKENS = ["output_throughput", "total_throughput"]


def _limits(reader: Reader, filters: Filters) -> dict[str, float]:
    """Return source -> the watts that one of its GPUs may take, as its record states them."""
    limits = {}
    for run in queries.runs(reader, filters).to_pylist():
        gpus = json.loads(run["environment"]).get("gpus") or ()
        watts = [gpu.get("power_cap_watts") for gpu in gpus if isinstance(gpu, dict)]
        stated = [float(each) for each in watts if isinstance(each, (int, float)) and each > 0]
        if stated and len(stated) == len(gpus):
            limits[run["source_id"]] = min(stated)
    return limits


# --- The room in the KV caches of both arms of each cost, where the servers told it.


#: Throughput measured with requests so much longer or shorter (times) is no throughput of others.
_ALIKE_LONG = 1.5


def with_memory(reader: Reader, costs: Costs) -> Costs:
    """Add to each cost what fits into the KV caches of the baseline and of the arm; None where one of the
    servers did not tell its size."""
    fields = [_at_once(row) for row in costs.rows]
    wanted = {cell for each in fields for one in each for pair in one.pairs for cell in pair}
    if not wanted:
        return costs
    models = tuple(sorted({known(row.decision.subject.model) for row in costs.rows}))
    told = _told_by_servers(reader, Filters(model=models), wanted)
    rows = (
        replace(row, memory=_room(row.basis, costs.terms.request_tokens, each, told))
        for row, each in zip(costs.rows, fields, strict=True)
    )
    return replace(costs, rows=tuple(rows))


def _at_once(row: DecisionCost) -> list[ArmAtLoad]:
    """The fields of the row's arm where so many requests were in flight, the smallest load first."""
    here = (
        one for one in row.decision.arms
        if one.arm == row.arm and one.load.value and not one.load.is_open
    )  # fmt: skip
    return sorted(here, key=lambda one: one.load.order)


def _told_by_servers(
    reader: Reader, filters: Filters, wanted: set[str]
) -> dict[str, dict[str, float]]:
    """Return cell -> ``cache``: tokens that its server's KV cache holds, as counted or as the engine says,
    ``request``: mean tokens of prompt and answer, ``most``: requests that it takes at once whatever fits."""
    names = ["kv_cache_tokens", "prompt_tokens", "output_tokens"]
    rows = queries.measurements(reader, filters, names, ["mean"]).to_pandas()
    measured: dict[str, dict[str, float]] = defaultdict(dict)
    for row in records(rows[rows["cell_id"].isin(wanted)]):
        measured[str(row["cell_id"])][str(row["metric"])] = float(row["value"])
    cells = queries.cells(reader, filters).to_pandas()
    mine = cells[cells["cell_id"].isin(wanted)]
    told = {}
    for cell, stated, arguments in listed(mine, "cell_id", "engine_settings", "server_args"):
        of_cell = measured[cell]
        most = fields.arguments(arguments).get("server_args.max-num-seqs", "")
        cache = of_cell.get("kv_cache_tokens", config_of(stated).get("kv_cache_tokens"))
        request = of_cell.get("prompt_tokens", nan) + of_cell.get("output_tokens", nan)
        if isinstance(cache, (int, float)) and cache > 0:
            told[cell] = {"cache": float(cache), "request": request,
                          "most": float(most) if most.isdigit() else inf}  # fmt: skip
    return told


def _room(
    basis: Basis | None, asked: int | None, here: Sequence[ArmAtLoad], told: Mapping[str, Mapping[str, float]],
) -> CacheRoom | None:  # fmt: skip
    both = [pair for one in here for pair in one.pairs if told.keys() >= set(pair)]
    if not both:
        return None
    # Sizes differ by little from start to start; what fits has to fit each time.
    tokens = tuple(min(told[pair[side]]["cache"] for pair in both) for side in (0, 1))
    measured = fmean(told[pair[0]]["request"] for pair in both)
    request = asked or measured
    if isnan(request):
        return None
    most = min(of_cell["most"] for pair in both for of_cell in map(told.__getitem__, pair))
    fit = int(min(tokens[0] / request, most)), int(min(tokens[1] / request, most))
    found = CacheRoom((tokens[0], tokens[1]), request, fit)
    # An unknown length, first, is like no other.
    if not max(measured, request) <= _ALIKE_LONG * min(measured, request):
        length = UNKNOWN if isnan(measured) else f"{measured:,.0f}"
        return replace(
            found, why_unknown=f"throughput was measured with requests of {length} tokens"
        )
    points = ((one.load.value, one.rates.baseline_output, one.rates.output) for one in here)
    whole = [(load, old, new) for load, old, new in points if load and old and new]
    baseline, arm = ([(one[0], one[side]) for one in whole] for side in (1, 2))
    # With requests as long, what an arm makes while some of them wait was measured as well.
    queued = arm if request <= measured else ()
    made, full = money.at_once(fit[0], baseline), money.at_once(fit[1], arm)
    found = replace(found, worse_from=money.worse_from(fit, baseline, arm, queued))
    if made is None or full is None:
        ends = dict.fromkeys(f"{one[0]:,.0f}" for one in (whole[:1] + whole[-1:]))
        where = f"at {' to '.join(ends)} at once" if whole else "nowhere"
        return replace(found, why_unknown=f"throughput was measured {where}")
    both_make = made, money.at_once(fit[0], queued) or full
    return replace(
        found, throughput=both_make,
        usd_per_million=None if basis is None else
            (usd_per_million(both_make[0], basis), usd_per_million(both_make[1], basis)),
    )  # fmt: skip


# --- From decisions to money, at the operating load of each: savings are the decision's own.


def costed(reader: Reader, decisions: Decisions, terms: Terms) -> Costs:
    """Return ``cost`` with all that the servers told of energy and memory. Raises as ``cost``."""
    return with_memory(reader, with_energy(reader, cost(decisions, terms)))


def cost(decisions: Decisions, terms: Terms) -> Costs:
    """Return what each decision is worth in money.

    Raises InvalidInput or UnknownKey for a price, an investment or a utilisation that cannot be;
    what is unknown is said in ``DecisionCost.missing``.
    """
    rows = tuple(_money(one, terms) for one in decisions.decisions)
    headline = rows[0].headline if rows else said.NOTHING
    return Costs(rows, terms, headline, said.notes(rows), decisions.why_none)


def _money(decision: Decision, terms: Terms) -> DecisionCost:
    about, level, saving = decision.subject, decision.operating, decision.saving
    found = basis_of(terms.paying, Hardware(about.gpu, about.gpu_count, about.tensor_parallel_size))
    basis = None if isinstance(found, Refusal) else found
    rates, paid = level.rates, _Paid(basis, terms)
    old = rates.baseline_output
    baseline = paid.arm(old, rates.baseline_total)
    # What is served costs what the baseline does where nothing is drafted, or both keep up with a rate.
    speculative = baseline if said.keeps_up(decision) or not level.drafts else None
    per_million = gpus = yearly = paid_back = None
    if saving is not None and old is not None:
        ends = _ends_of(saving, level.difference)
        output, total = old * ends.expected, None
        if rates.total is not None and rates.output is not None:
            total = output * rates.total / rates.output
        speculative = paid.arm(output, total)
        gpus = paid.saved_of_fleets(old, ends, lambda one: float(one.gpus))
        yearly = paid.saved_of_fleets(old, ends, lambda one: one.usd_per_year)
        if basis is not None:
            price = usd_per_million(old, basis)
            low, high = (None if end is None else end * price for end in (saving.low, saving.high))
            per_million = SavedAmount(saving.per_output_token * price, low, high, saving.word)
            # Without a demand, GPUs do in an hour what took them longer.
            hourly = basis.usd_per_hour_charged * (ends.expected - 1)
            hourly = hourly if yearly is None else yearly.value / HOURS_PER_YEAR
            if terms.investment_usd is not None:
                paid_back = break_even(terms.investment_usd, per_million.value, hourly)
    served = None if terms.demand is None or basis is None else (terms.demand, basis)
    missing = (said.missing(decision), found.sentence if isinstance(found, Refusal) else None)
    return DecisionCost(
        decision, level.load, level.arm, basis, baseline, speculative, per_million, gpus, yearly, paid_back, tuple(_curve(decision, basis)),
        said.headline(decision, baseline, speculative, yearly, served),
        tuple(one for one in missing if one),
    )  # fmt: skip


@dataclass(frozen=True)
class _Ends:
    """How many times the baseline's throughput an arm makes: as expected, and at both ends of the
    plain, the study-adjusted and the one-sided 90 % interval (None: nothing repeats); ``word``: how
    sure the saving is."""

    expected: float
    plain: tuple[float, float] | None
    adjusted: tuple[float, float] | None
    likely: tuple[float, float] | None
    word: Word


#: Quantiles of the normal distribution, 0.90 over 0.975. Those of t with few degrees of freedom lie
#: closer to the middle, so that the 90 % end is never too near.
_NEARER = 1.2816 / 1.9600


def _ends_of(saving: Saving, difference: ArmDifference) -> _Ends:
    plain, adjusted = (
        None if low is None or high is None else (1 + low, 1 + high)
        for low, high in (
            (difference.low, difference.high), (difference.adjusted_low, difference.adjusted_high),
        )
    )  # fmt: skip
    likely = plain
    if plain is not None and 0 < plain[0] <= plain[1] < inf:
        low, high = log(plain[0]), log(plain[1])
        middle, half = (low + high) / 2, (high - low) / 2 * _NEARER
        likely = exp(middle - half), exp(middle + half)
    return _Ends(1 / (1 - saving.per_output_token), plain, adjusted, likely, saving.word)


@dataclass(frozen=True)
class _Paid:
    basis: Basis | None
    terms: Terms

    def arm(self, output: float | None, total: float | None) -> ArmCost | None:
        if output is None and total is None:
            return None
        # Fewer tokens in all than output tokens is a report's mistake: then they are unknown.
        total = None if total is not None and output is not None and total < output else total
        priced = None if self.basis is None else money.cost(output, total, self.basis)
        return ArmCost(output, total, priced, self.fleet(output))

    def fleet(self, output: float | None) -> Fleet | None:
        if self.basis is None or self.terms.demand is None or output is None:
            return None
        return money.fleet(self.terms.demand, output, self.basis, self.terms.whole_instances)

    def saved_of_fleets(
        self, old: float, ends: _Ends, figure: Callable[[Fleet], float]
    ) -> SavedAmount | None:
        """Return by how much a figure of the arm's fleet for the demand is smaller than that of the
        baseline's, with interval and word."""
        whole = self.fleet(old)
        if whole is None:
            return None
        baseline = figure(whole)

        def saved(times: float) -> float:
            # No fleet serves the demand with no throughput at all; with one beyond all numbers none is needed.
            if not 0 < old * times < inf:
                return -inf if times <= 0 else baseline
            with_arm = self.fleet(old * times)
            return 0.0 if with_arm is None else baseline - figure(with_arm)

        value = saved(ends.expected)
        low, high = (None, None) if ends.plain is None else map(saved, ends.plain)
        return SavedAmount(value, low, high, _word(saved, ends, value))


def _word(saved: Callable[[float], float], ends: _Ends, value: float) -> Word:
    """Whole GPUs come in steps: a settled gain of throughput may free none. So the word is the
    saving's only where an end of its interval still saves (or loses) something, and never surer."""
    settled, likely, sign, end = (
        (GAIN, LIKELY_GAIN, 1, 0) if value > 0 else (LOSS, LIKELY_LOSS, -1, 1)
    )
    if ends.word not in (settled, likely) or ends.adjusted is None or ends.likely is None:
        return OPEN
    if ends.word == settled and sign * saved(ends.adjusted[end]) > 0:
        return settled
    return likely if sign * saved(ends.likely[end]) > 0 else OPEN


def _curve(decision: Decision, basis: Basis | None) -> Iterator[CostPoint]:
    level = decision.operating
    load = level.stands_for or level.load
    seen: set[Load] = set()
    for cell in sorted(decision.arms, key=lambda one: (one.load.order, not one.taken)):
        old, gain = cell.rates.baseline_output, cell.difference
        unpriced = gain.metric != "output_throughput"
        if unpriced or basis is None or old is None or gain.improvement is None:
            continue
        price = usd_per_million(old, basis)
        if cell.load not in seen:
            seen.add(cell.load)
            yield CostPoint(cell.load, None, price, None, None, False, load == cell.load)
        low, high = (
            None if end is None else inf if end <= -1 else price / (1 + end)
            for end in (gain.high, gain.low)
        )
        here = level.drafts and (load, level.arm) == (cell.load, cell.arm)
        expected = price / (1 + gain.improvement)
        yield CostPoint(cell.load, cell.arm, expected, low, high, cell.taken, here)
