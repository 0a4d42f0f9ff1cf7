"""The prompts of a study: shuffled by seed, one disjoint set for each concurrency level.

Every arm, tensor-parallel size and repeat gets the same sets, so that only the speculation
differs; no level sees a prompt of another, so that no cache helps it.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from random import Random

from runners.planning.study import Dataset, Study
from runners.texts.datasets import prompt_texts
from warehouse.errors import StudyError
from warehouse.prompt_hash import flatten_messages, hash_text, prompt_set_hash


@dataclass(frozen=True)
class Prompt:
    """A text and its hash, which is that of the request as ingest finds it in a report."""

    text: str
    hash: str


@dataclass(frozen=True)
class PromptSet:
    """What one level sends, what warms it up, and the hash that a record says."""

    prompts: tuple[Prompt, ...]
    warm_up: tuple[Prompt, ...]
    """Prompts of no level; fewer than asked for where the dataset has no more."""
    hash: str


def prompt_sets(study: Study, dataset_name: str) -> dict[int, PromptSet]:
    """The prompts of a dataset by concurrency level.

    Raises StudyError where the dataset cannot be read or has too few prompts.
    """
    dataset = study.dataset(dataset_name)
    texts = prompt_texts(study, dataset_name)
    levels = dataset.concurrency or study.concurrency
    needed = sum(dataset.prompts_at(level) for level in levels)
    if len(texts) < needed:
        raise StudyError(_too_few(dataset, len(texts), needed))
    Random(dataset.shuffle_seed).shuffle(texts)
    prompts = [_prompt(text, study.request.format) for text in texts]
    warm_up = tuple(prompts[needed : needed + study.window.warm_up_requests])
    found, start = {}, 0
    for level in levels:
        taken = tuple(prompts[start : start + dataset.prompts_at(level)])
        found[level] = PromptSet(taken, warm_up, _set_hash(taken))
        start += len(taken)
    return found


def problems(study: Study) -> list[str]:
    """One sentence for each dataset that cannot be read or has too few prompts."""
    said = []
    for dataset in study.datasets:
        try:
            prompt_sets(study, dataset.name)
        except StudyError as error:
            said.append(str(error))
    return said


def write(found: PromptSet, path: Path) -> None:
    """The set as JSONL with the one column ``prompt``, which is what GuideLLM reads."""
    lines = [json.dumps({"prompt": prompt.text}) for prompt in found.prompts]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


def _prompt(text: str, request_format: str) -> Prompt:
    chat = request_format == "chat_completions"
    return Prompt(text, hash_text(flatten_messages([("user", text)]) if chat else text))


def _set_hash(prompts: tuple[Prompt, ...]) -> str:
    found = prompt_set_hash([prompt.hash for prompt in prompts])
    assert found is not None  # a level sends at least one prompt
    return found


def _too_few(dataset: Dataset, there_are: int, needed: int) -> str:
    return (
        f"Dataset {dataset.name} has {there_are} different prompts, but its levels need {needed}, "
        "none twice; lower prompts_per_level, drop levels or loosen the filter."
    )
