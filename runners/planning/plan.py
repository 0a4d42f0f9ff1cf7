"""What a study needs: its cells, the fewest server launches that measure them, which of them to run, the rates of
its sweeps, and what keeps a load from being run.

A launch is one server configuration (arm x tensor parallel size) in one block (repeat); every
dataset and every level of that block shares it. The arms of a block run one after the other in an
order of its own, so that a drift of the machine falls on all of them.
"""

import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from runners.planning.loads import Dataset, LoadLevel, Trace, replayed
from runners.planning.study_file import Study, Variant
from runners.surroundings.machine import public
from runners.surroundings.models import token_count, with_underscores
from warehouse.errors import RunnerError
from warehouse.secrets.shapes import is_secret_name
from warehouse.storage.files import write_whole


@dataclass(frozen=True)
class PlannedCell:
    """One arm x dataset x load x repeat. ``key`` is also its folder under the study's."""

    key: str
    arm: str
    dataset: str
    tensor_parallel_size: int
    level: LoadLevel
    repeat: int
    order: int
    prompts: int
    #: Short name for ``identity``.
    fingerprint: str
    #: What the study says of this cell and decides its result; anything else is another cell.
    identity: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def concurrency(self) -> int | None:
        """The requests in flight, where the load holds them at a number; else None."""
        return self.level.at_once

    @property
    def load(self) -> str:
        """The short name of the cell's load."""
        return self.level.name

    @property
    def most_at_once(self) -> int:
        """The requests that may be in flight: all of them, where nothing holds them back."""
        return min(self.level.at_once or self.prompts, self.prompts)


@dataclass(frozen=True)
class Launch:
    """One server start and the cells that are measured on it, in order."""

    launch_id: str
    variant: Variant
    tensor_parallel_size: int
    repeat: int
    cells: tuple[PlannedCell, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that a study asks for, in the order in which it is run."""

    study: Study
    launches: tuple[Launch, ...]

    @property
    def cells(self) -> tuple[PlannedCell, ...]:
        """All cells, in the order in which they are run."""
        return tuple(cell for launch in self.launches for cell in launch.cells)

    def launch(self, launch_id: str) -> Launch:
        """Return the launch of that id. KeyError where there is none."""
        return {launch.launch_id: launch for launch in self.launches}[launch_id]


def gpus_needed(study: Study, launch: Launch) -> int:
    """Return how many GPUs one launch takes; 0 where the study says that a CPU does the work."""
    if study.on_cpu:
        return 0
    arguments = study.engine_arguments(launch.variant)
    count = launch.tensor_parallel_size
    for name in ("pipeline-parallel-size", "data-parallel-size"):
        count *= token_count(arguments.get(name)) or 1
    return count


def target_key(study: Study) -> tuple[str, str | None]:
    """Return (model, revision) of the target."""
    return study.located(study.target.model), study.target.revision


def draft_key(study: Study, launch: Launch) -> tuple[str, str | None] | None:
    """Return (model, revision) of a launch's draft; None where nothing is loaded for it."""
    config = study.drafting(launch.variant) or {}
    if config.get("model") is None:
        return None
    revision = config.get("revision")
    return str(config["model"]), None if revision is None else str(revision)


def configurations(plan: Plan) -> list[Launch]:
    """Return one launch of each server configuration: repeats ask for the same again."""
    first: dict[tuple[str, int], Launch] = {}
    for launch in plan.launches:
        first.setdefault((launch.variant.name, launch.tensor_parallel_size), launch)
    return list(first.values())


def make_plan(study: Study, results: Path | None = None) -> Plan:
    """Lay a study out, with the rates that its sweeps found for it in ``results``. Reads no dataset, asks
    no server; StudyError for a trace that is not there, RunnerError for rates that cannot be read."""
    if results is not None:
        study = with_frozen_rates(study, results)
    launches, order = list[Launch](), 0
    own = (dataset.tensor_parallel_sizes or () for dataset in study.measured_on)
    sizes = sorted(set(study.tensor_parallel_sizes).union(*own))
    for repeat in range(study.repeats):
        block = [(variant, size) for size in sizes for variant in study.variants]
        if repeat:  # The first keeps the file's order, each other has one of its own.
            random.Random(f"{study.order_seed}-{repeat}").shuffle(block)
        for variant, size in block:
            cells = tuple(_cells(study, variant, size, repeat, order))
            order += len(cells)
            if cells:
                launch_id = f"r{repeat}-{variant.name}-tp{size}"
                launches.append(Launch(launch_id, variant, size, repeat, cells))
    return Plan(study, tuple(launches))


def _cells(
    study: Study, variant: Variant, size: int, repeat: int, first: int
) -> Iterator[PlannedCell]:
    order = first
    for dataset in study.measured_on:
        for level in study.levels(dataset, size) if wanted(study, variant, size, dataset) else ():
            identity = _identity(study, variant, size, dataset, level)
            text = json.dumps(identity, sort_keys=True)
            yield PlannedCell(
                key=f"{variant.name}/tp{size}/{dataset.name}/{level.name}-r{repeat}",
                arm=variant.name,
                dataset=dataset.name,
                tensor_parallel_size=size,
                level=level,
                repeat=repeat,
                order=order,
                prompts=identity["prompts"],
                fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
                identity=identity,
            )
            order += 1


def wanted(study: Study, variant: Variant, size: int, dataset: Dataset) -> bool:
    """Return whether the study measures this server configuration on this dataset."""
    if dataset.arms is not None and not {variant.name, variant.arm} & set(dataset.arms):
        return False
    sizes = dataset.tensor_parallel_sizes or study.tensor_parallel_sizes
    allowed = variant.tensor_parallel_sizes
    return size in sizes and (allowed is None or size in allowed)


# --- The identity of a cell, and what its load is.

#: Where files lie, who is told, what is written: a result does not depend on it.
_IDLE = re.compile(
    r"^(HF_|HUGGING|TRANSFORMERS_OFFLINE$|VLLM_(NO_USAGE_STATS|DO_NOT_TRACK|LOG|CACHE_ROOT)"
    r"|DO_NOT_TRACK$|HOME$|TMPDIR$|.*_PROXY$|.*_CACHE$|.*_CACHE_DIR$)",
    re.IGNORECASE,
)
_CACHING = "enable_prefix_caching"
_LABELS = {"served_model_name", "api_key"}


def _identity(
    study: Study, variant: Variant, size: int, dataset: Dataset, level: LoadLevel
) -> dict[str, Any]:
    """Return what the study asks of one cell, as far as it decides the result, fit for a record.

    Labels, tokens, caches, limits, prices, repeats, other arms and other levels are not in it."""
    load: dict[str, Any] = {"concurrency": level.at_once}
    if level.at_once is None:
        load = {"load": {"profile": level.profile, "rate": level.rate}}
    if level.trace is not None:  # By its content.
        digest = trace_of(study, level).digest
        load["load"] |= {"trace": digest, "speed": level.speed, "seconds": level.seconds}
    request = study.request.model_dump(mode="json")
    request["max_tokens"] = dataset.max_tokens or study.request.max_tokens
    facts = {
        "model": study.target.model,
        "revision": study.target.revision,
        "tokenizer": study.target.tokenizer,
        "server_args": server_arguments({**study.target.engine_args, **variant.engine_args}),
        "speculative_config": variant.speculative_config,
        "tensor_parallel_size": size,
        "dataset": dataset.model_dump(
            mode="json", include={"hub", "file", "generator", "field", "filter", "shuffle_seed"}
        )
        | ({"sessions": dataset.sessions.model_dump()} if dataset.sessions else {}),
        "prompts": requests_at(study, dataset, level),
        **load,
        "request": request,
        "window": study.window.model_dump(mode="json", exclude_none=True),
        "prefix_cache": study.prefix_cache,
        "environment": {
            name: value
            for name, value in {**study.environment, **variant.environment}.items()
            if not _IDLE.match(name) and not is_secret_name(name)
        },
        "cpus": None if study.cpus is None else study.cpus.model_dump(mode="json"),
    }
    if dataset.prompt_tokens:
        facts["dataset"]["prompt_tokens"] = dataset.prompt_tokens
    if study.engine != "vllm":  # What was measured before engines were told apart stays as it is.
        facts["engine"] = study.engine
    return dict(public(facts))


def trace_of(study: Study, level: LoadLevel) -> Trace:
    """Return the trace that a level replays. Raises StudyError where it cannot be."""
    assert level.trace is not None
    return replayed(study.file(level.trace), level.speed, level.seconds)


def requests_at(study: Study, dataset: Dataset, level: LoadLevel) -> int:
    """Return how many requests a level sends. Raises StudyError where a trace cannot be read."""
    if level.trace is not None:
        return len(trace_of(study, level).arrivals)
    return dataset.prompts_at(level) * dataset.turns


def server_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return engine arguments by names with underscores; ``no_enable_…: true`` as its opposite."""
    named = with_underscores(given)
    if named.pop(f"no_{_CACHING}", False):
        named[_CACHING] = False
    return {
        name: value
        for name, value in named.items()
        if name not in _LABELS and not is_secret_name(name)
    }


# --- ``--only FIELD=VALUE[,VALUE]``, ``--launch`` and ``--cell``: which cells of a plan to run.


#: What a term may name, and the member of a cell that it stands for.
FIELDS = {name: name for name in ("arm", "dataset", "tp", "concurrency", "load", "repeat")} | {
    "tp": "tensor_parallel_size"
}


def select(
    plan: Plan, only: Sequence[str], launch_id: str | None, keys: Sequence[str] = ()
) -> tuple[PlannedCell, ...]:
    """Return the cells that every ``only`` allows, of one launch or of all; of these ``keys`` alone where
    some are named. Raises RunnerError."""
    cells = plan.cells
    if launch_id is not None:
        try:
            cells = plan.launch(launch_id).cells
        except KeyError:
            ids = ", ".join(launch.launch_id for launch in plan.launches)
            raise RunnerError(f"The study has no launch {launch_id!r}; it has {ids}.") from None
    if unknown := [key for key in keys if key not in {cell.key for cell in plan.cells}]:
        raise RunnerError(
            f"The study has no cell {unknown[0]!r}; `draftboard plan STUDY --json` names them."
        )
    cells = tuple(cell for cell in cells if not keys or cell.key in keys)
    for term in only:
        name, equals, given = term.partition("=")
        if not equals or name not in FIELDS:
            raise RunnerError(
                f"--only {term}: write FIELD=VALUE[,VALUE] with one of {', '.join(FIELDS)}."
            )
        field, values = FIELDS[name], [value.strip() for value in given.split(",")]
        present = sorted({str(getattr(cell, field)) for cell in plan.cells})
        if absent := [value for value in values if value not in present]:
            raise RunnerError(
                f"--only {term}: the study has no {absent[0]!r} there; it has {', '.join(present)}."
            )
        cells = tuple(cell for cell in cells if str(getattr(cell, field)) in values)
    if not cells:
        raise RunnerError("No cell of the study is left; loosen --only, --launch or --cell.")
    return cells


# --- Loads that need more than a study file: the rates of a sweep, and what keeps a load from being run.
#
# GuideLLM's sweep measures how many requests a second the baseline serves one by one, and how many
# with all of them at once; its rates lie evenly between the two. They are found once, on the baseline,
# and frozen beside the results for every arm. Were they found on each arm anew, no two arms would be
# offered the same, and nothing would pair.


_DIGITS = 4
#: Folder of the frozen rates, in that of the study's results.
RATES = "rates"


@dataclass(frozen=True)
class SweepEnds:
    """What a sweep found, in requests per second."""

    one_by_one: float
    all_at_once: float
    baseline: str
    software: str

    def rates(self, count: int) -> tuple[float, ...]:
        """Return so many rates, evenly spaced above the lower end; the last is all that the
        baseline can serve."""
        step = (self.all_at_once - self.one_by_one) / count
        return tuple(
            float(f"{self.one_by_one + step * number:.{_DIGITS}g}")
            for number in range(1, count + 1)
        )


def with_frozen_rates(study: Study, results: Path) -> Study:
    """Return the study with the rates that sweeps found for it under ``results``. Raises
    RunnerError."""
    rates = {
        (dataset.name, size): _read_ends(path).rates(count)
        for dataset, size, count in _sweeps(study)
        if (path := _path(study, results, dataset.name, size)).exists()
    }
    return study.with_rates(rates) if rates else study


def unknown_sweeps(study: Study, results: Path) -> list[tuple[Dataset, int]]:
    """Return the sweeps that have not run yet, by dataset and tensor parallel size."""
    return [
        (dataset, size)
        for dataset, size, _ in _sweeps(study)
        if not _path(study, results, dataset.name, size).exists()
    ]


def freeze(study: Study, results: Path, dataset: str, size: int, ends: SweepEnds) -> None:
    """Write down what a sweep found on a dataset at a tensor parallel size."""
    text = json.dumps(asdict(ends), indent=1) + "\n"
    write_whole(_path(study, results, dataset, size), text)


def ends_of_report(report: Path, baseline: str, software: str) -> SweepEnds:
    """Return what GuideLLM's report of a sweep found. Raises RunnerError where it found no room to
    sweep."""
    try:
        slow, fast = (
            float(level["metrics"]["requests_per_second"]["successful"]["mean"])
            for level in json.loads(report.read_bytes())["benchmarks"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise RunnerError(
            f"The sweep on {baseline} left no report with its two ends; its log says why."
        ) from None
    if not 0 < slow < fast:
        raise RunnerError(
            f"The sweep found nothing to sweep: {baseline} serves {slow:.3g} requests/s one by one and "
            f"{fast:.3g} all at once; send more prompts_per_level, or name rates yourself."
        )
    return SweepEnds(slow, fast, baseline, software)


def _sweeps(study: Study) -> Iterator[tuple[Dataset, int, int]]:
    """Yield dataset, tensor parallel size and number of rates of each sweep of a study."""
    for dataset in study.measured_on:
        count = study.loads(dataset).sweep
        for size in dataset.tensor_parallel_sizes or study.tensor_parallel_sizes:
            if count is not None:
                yield dataset, size, count


def _read_ends(path: Path) -> SweepEnds:
    try:
        ends = SweepEnds(**json.loads(path.read_bytes()))
        if 0 < ends.one_by_one < ends.all_at_once:
            return ends
    except (OSError, ValueError, TypeError):
        pass  # Said below, whatever of it is wrong.
    raise RunnerError(
        f"The rates of the sweep in {path} cannot be read; put the file back, or remove it and the "
        "next run finds rates anew, with which all cells of the sweep are measured again."
    )


def _path(study: Study, results: Path, dataset: str, size: int) -> Path:
    return results / study.name / RATES / f"{dataset}-tp{size}.rates"


# --- What keeps a load from being run, and what its results will have to be read with.


#: The first releases of GuideLLM that replay traces, and that send messages as they are.
_REPLAYS, CONVERSES = (0, 7), (0, 8)
#: What to do with a release that does not, by its version.
LACKS_REPLAY = (
    "GuideLLM {} replays no trace; install 0.8.1 and name it under executables.guidellm of the study, "
    "or offer rates instead"
)
LACKS_CONVERSATIONS = (
    "GuideLLM {0} sends no {1}s; install 0.8.1 and name it under executables.guidellm of the "
    "study, or leave {1}s out of the dataset and name its first turn as field"
)


def release_numbers(version: str) -> tuple[int, ...]:
    """Return a release as numbers, "0.8.1" as (0, 8, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def refusals(plan: Plan, guidellm: str | None) -> list[str]:
    """Return one sentence for each load that cannot be run with this release (None: unknown) and
    limits."""
    sentences: list[str] = []
    for dataset, level in _levels(plan):
        lasts_s, limit_s = 0.0, plan.study.limits.cell_s
        if level.trace is not None:
            lasts_s = trace_of(plan.study, level).lasts_s
        elif level.rate is not None:
            lasts_s = dataset.prompts_at(level) / level.rate
        if guidellm is not None:
            numbers = release_numbers(guidellm)
            if dataset.form != "prompt" and numbers < CONVERSES:
                sentences.append(f"{LACKS_CONVERSATIONS.format(guidellm, dataset.form)}.")
            elif level.trace and numbers < _REPLAYS:
                sentences.append(f"{LACKS_REPLAY.format(guidellm)}.")
        if lasts_s > limit_s:
            shorter = "lower seconds or prompts_per_level"
            cut = "raise speed, cut it with seconds" if level.trace else shorter
            sentences.append(
                f"{dataset.name} at {level.words} lasts {lasts_s:,.0f} s, longer than a cell may take "
                f"({limit_s:g} s); {cut}, or raise limits.cell_s."
            )
    return list(dict.fromkeys((*sentences, *_too_long(plan))))


def _too_long(plan: Plan) -> Iterator[str]:
    # Prompts of a stated length that with their answers do not fit what a server holds.
    study = plan.study
    stated = (study.engine_arguments(variant).get("max-model-len") for variant in study.variants)
    held = min(filter(None, map(token_count, stated)), default=inf)
    for dataset in study.measured_on:
        answer = dataset.max_tokens or study.request.max_tokens or 1
        prompt = sum(dataset.prompt_tokens)
        if prompt and prompt + answer > held:
            yield (
                f"{dataset.name}: a prompt of {prompt:,} tokens and an answer of up to {answer:,} do not fit "
                f"max-model-len {held:,}; lower prompt_tokens or max_tokens, or raise it."
            )


def doubts(plan: Plan) -> list[str]:
    """Return one sentence for each load that runs and says less than it seems to."""
    study, sentences = plan.study, []
    for _, level in _levels(plan):
        gap = None if level.trace is None else trace_of(study, level).gap
        if gap is not None:
            sentences.append(
                f"The {level.words} sends nothing for {gap[1]:,.0f} s from {gap[0]:,.0f} s on, in which "
                "the server is measured idle; cut the trace before it, or raise speed."
            )
    caching = server_arguments(study.target.engine_args).get("enable_prefix_caching")
    sentences += [
        f"{dataset.name} may send a prompt more than once, which a cache of prefixes makes faster; "
        "turn it off with engine_args enable-prefix-caching: false."
        for dataset in study.measured_on
        if dataset.reuse and caching is not False
    ]
    limits = [dataset.max_tokens or study.request.max_tokens for dataset in study.measured_on]
    bounded = any("max-model-len" in study.engine_arguments(each) for each in study.variants)
    if None in limits and not bounded:
        sentences.append(
            "Neither max_tokens nor max-model-len limits an answer, so one that does not end fills the "
            "model's whole context; set one of them unless the model is known to end."
        )
    return list(dict.fromkeys(sentences))


def _levels(plan: Plan) -> Iterator[tuple[Dataset, LoadLevel]]:
    # Each dataset with each of its load points, at the first size that measures it.
    levels: dict[tuple[str, str], LoadLevel] = {}
    for cell in plan.cells:
        levels.setdefault((cell.dataset, cell.load), cell.level)
    for (name, _), level in levels.items():
        yield plan.study.dataset(name), level
