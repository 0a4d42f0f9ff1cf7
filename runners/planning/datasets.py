"""The datasets of a study: where prompts come from, what of them is used, and in which parts."""

import re
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from runners.planning.loads import LoadLevel, Loads, Name, Positive, StudyPart, unique


class Hub(StudyPart):
    """A dataset of the Hugging Face hub."""

    id: str = Field(min_length=1)
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    file: str | None = Field(
        default=None, description="One file of the repository, where it has no loader"
    )


class Generator(StudyPart):
    """Prompts that the project makes itself."""

    kind: Literal["code", "structured", "prose"]
    min_chars: Positive = 150
    max_chars: Positive = 320


class Filter(StudyPart):
    """Which rows of a dataset are used."""

    min_chars: Positive | None = None
    max_chars: Positive | None = None
    where: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Columns that must equal a value"
    )


class Dataset(StudyPart):
    """Where the prompts come from, and what of the study they are used for."""

    name: Name
    hub: Hub | None = None
    file: str | None = Field(
        default=None, description="Local JSONL, CSV or Parquet, relative to the study"
    )
    generator: Generator | None = None
    field: str = Field(default="prompt", description="Column or dotted path: conversations.0.value")
    conversations: bool = Field(
        default=False,
        description="The field is a list of messages: each turn of a user is sent with all before it",
    )
    filter: Filter = Filter()
    prompts_per_level: Positive | dict[Positive, Positive] = Field(
        default=100, description="Prompts of each concurrency level, one number or one per level"
    )
    shuffle_seed: int = 0
    arms: list[Name] | None = Field(default=None, description="Arms to run on it; all if left out")
    tensor_parallel_sizes: list[Positive] | None = None
    concurrency: list[Positive] | None = None
    load: Loads | None = Field(default=None, description="Instead of the study's own")
    max_tokens: Positive | None = Field(default=None, description="Instead of the request's own")
    reuse: bool = Field(
        default=False, description="Prompts are sent again where there are too few of them"
    )
    categories: list[str] = Field(
        default=[], description="Measured each by itself: values of category_field"
    )
    category_field: str = "category"
    length_bins: list[Positive] = Field(
        default=[], description="Prompts by length, each bin by itself: its most characters"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = [s for s in ("hub", "file", "generator") if getattr(self, s) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of hub, file and generator")
        if self.concurrency is not None and self.load is not None:
            raise ValueError("give concurrency or load, not both")
        unique("categories", self.categories)
        if self.conversations and self.generator is not None:
            raise ValueError("a generator makes single prompts; leave conversations out")
        if self.categories and self.generator is not None:
            raise ValueError("the rows of a generator have no categories; leave categories out")
        if self.length_bins != sorted(set(self.length_bins)):
            raise ValueError("length_bins must rise: the most characters of each bin")
        return self

    def parts(self) -> tuple["Dataset", ...]:
        """Return the datasets that are measured: this one, or one for each category and length."""
        parts: list[Dataset] = []
        for value in self.categories:
            where = {**self.filter.where, self.category_field: value}
            suffix = re.sub(r"[^A-Za-z0-9._-]+", "_", value)
            parts.append(self._part(suffix, {"where": where}))
        parts = parts or [self]
        edges = list(zip([0, *self.length_bins], self.length_bins, strict=False))
        return tuple(
            part._part(f"{most}c", {"min_chars": above + 1, "max_chars": most})
            for part in parts
            for above, most in edges
        ) or tuple(parts)

    def _part(self, suffix: str, kept: dict[str, Any]) -> "Dataset":
        own: dict[str, Any] = {"name": f"{self.name}-{suffix}", "categories": [], "length_bins": []}
        own["filter"] = self.filter.model_copy(update=kept)
        if self.generator is not None and "max_chars" in kept:
            own["generator"] = self.generator.model_copy(update=kept)
        return self.model_copy(update=own)

    def prompts_at(self, level: LoadLevel) -> int:
        """Return how many prompts a level sends that is no trace, which brings its own number.

        KeyError where the dataset has a number for each concurrency and none for this level.
        """
        if level.requests is not None:
            return level.requests
        if isinstance(self.prompts_per_level, int):
            return self.prompts_per_level
        return self.prompts_per_level[level.at_once or 0]
