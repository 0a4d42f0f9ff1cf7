"""What keeps a load from being run, and what its results will have to be read with."""

import re
from collections.abc import Iterator

from runners.planning.datasets import Dataset
from runners.planning.loads import LoadLevel
from runners.planning.plan import Plan, server_arguments, trace_of
from runners.planning.study import Study

#: The first releases of GuideLLM that replay traces, and that send messages as they are.
REPLAYS, CONVERSES = (0, 7), (0, 8)


def refusals(plan: Plan, guidellm: str | None) -> list[str]:
    """Return one sentence for each load that cannot be run with this release (None: unknown) and
    limits."""
    found = [
        sentence
        for dataset, level in _levels(plan)
        for sentence in (
            _lacking(dataset, level, guidellm),
            _too_long(plan.study, dataset, level),
        )
        if sentence is not None
    ]
    return list(dict.fromkeys(found))


def doubts(plan: Plan) -> list[str]:
    """Return one sentence for each load that runs and says less than it seems to."""
    study = plan.study
    found = [_still(study, level) for _, level in _levels(plan)]
    found += [_reused(study, dataset) for dataset in study.measured_on] + [_endless(study)]
    return list(dict.fromkeys(sentence for sentence in found if sentence is not None))


def lacks_replay(version: str) -> str:
    """Say what to do with a release that replays no trace."""
    return (
        f"GuideLLM {version} replays no trace; install 0.8.1 and name it under executables.guidellm "
        "of the study, or offer rates instead"
    )


def lacks_conversations(version: str) -> str:
    """Say what to do with a release that sends single turns alone."""
    return (
        f"GuideLLM {version} sends no conversations; install 0.8.1 and name it under "
        "executables.guidellm of the study, or leave conversations out of the dataset and name its "
        "first turn as field"
    )


def _levels(plan: Plan) -> Iterator[tuple[Dataset, LoadLevel]]:
    """Yield each dataset with each of its load points, at the first size that measures it."""
    seen: dict[tuple[str, str], LoadLevel] = {}
    for cell in plan.cells:
        seen.setdefault((cell.dataset, cell.load), cell.level)
    for (name, _), level in seen.items():
        yield plan.study.dataset(name), level


def _lacking(dataset: Dataset, level: LoadLevel, guidellm: str | None) -> str | None:
    if guidellm is None:
        return None
    numbers = tuple(int(part) for part in re.findall(r"\d+", guidellm)[:2])
    if dataset.conversations and numbers < CONVERSES:
        return f"{lacks_conversations(guidellm)}."
    return f"{lacks_replay(guidellm)}." if level.trace and numbers < REPLAYS else None


def _too_long(study: Study, dataset: Dataset, level: LoadLevel) -> str | None:
    limit = study.limits.cell_s
    if level.trace is not None:
        lasts = trace_of(study, level).lasts_s
    elif level.rate is not None:
        lasts = dataset.prompts_at(level) / level.rate
    else:
        return None
    if lasts <= limit:
        return None
    cut = (
        "raise speed, cut it with seconds" if level.trace else "lower seconds or prompts_per_level"
    )
    return (
        f"{dataset.name} at {level.words} lasts {lasts:,.0f} s, longer than a cell may take "
        f"({limit:g} s); {cut}, or raise limits.cell_s."
    )


def _still(study: Study, level: LoadLevel) -> str | None:
    gap = None if level.trace is None else trace_of(study, level).gap
    if gap is None:
        return None
    return (
        f"The {level.words} sends nothing for {gap[1]:,.0f} s from {gap[0]:,.0f} s on, in which the "
        "server is measured idle; cut the trace before it, or raise speed."
    )


def _reused(study: Study, dataset: Dataset) -> str | None:
    caching = server_arguments(study.target.engine_args).get("enable_prefix_caching")
    if not dataset.reuse or caching is False:
        return None
    return (
        f"{dataset.name} may send a prompt more than once, which a cache of prefixes makes faster; "
        "turn it off with engine_args enable-prefix-caching: false."
    )


def _endless(study: Study) -> str | None:
    """Warn where nothing limits an answer: one that does not end goes on until the model's context
    is full."""
    asked = [dataset.max_tokens or study.request.max_tokens for dataset in study.measured_on]
    names = {name.lstrip("-").replace("_", "-") for arm in study.arms
             for name in (*study.target.engine_args, *arm.engine_args)}  # fmt: skip
    if None not in asked or "max-model-len" in names:
        return None
    return (
        "Neither max_tokens nor max-model-len limits an answer, so one that does not end fills the "
        "model's whole context; set one of them unless the model is known to end."
    )
