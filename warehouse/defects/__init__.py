"""Defects of engines that others found: the rows of ``defects.toml``, and whether an arm has one."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from warehouse.contract import Facts
from warehouse.errors import InvalidInput

Values = dict[str, list[bool | int | str]]


class KnownDefect(BaseModel):
    """One defect of an engine, from a public thread; its fields are told in ``defects.toml``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    engine: Annotated[str, Field(pattern=r"^(vllm|sglang|llama\.cpp)$")]
    since: Annotated[str, Field(pattern=r"^\d+(\.\d+)*$")]
    until: Annotated[str | None, Field(pattern=r"^\d+(\.\d+)*$")] = None
    methods: list[str] = []
    model: str = ""
    settings: Values = {}
    unless: Values = {}
    acceptance_below: Annotated[float, Field(ge=0, le=1)] = 0.0
    breaks_answers: bool = False
    effect: Annotated[str, Field(min_length=20, pattern=r"[^.]$")]
    do: Annotated[str, Field(min_length=10, pattern=r"\.$")]
    source: Annotated[str, Field(pattern=r"^https://github\.com/[\w./-]+/(issues|pull)/\d+$")]

    @property
    def when(self) -> str:
        """The versions in words: ``from 0.21.0 to before 0.22.1``."""
        ends = f" to before {self.until}" if self.until else " on, and no fix is recorded"
        return f"from {self.since}{ends}"

    def concerns(self, facts: Facts) -> bool:
        """Return whether an arm has this defect, as far as its facts tell; never a baseline, nor an
        engine of unknown version."""
        release, method = release_of(facts.engine_version), facts.spec_method
        if facts.engine != self.engine or not release or method in (None, "none"):
            return False
        before = release_of(self.since) <= release
        after = self.until is not None and release >= release_of(self.until)
        # vLLM names a model's own: qwen3_next_mtp.
        own = "mtp" in self.methods and str(method).endswith("_mtp")
        drafts = not self.methods or method in self.methods or own
        settings = _settings(facts)
        return (
            before and not after and drafts
            and re.search(self.model, facts.model or "", re.IGNORECASE) is not None
            and all(_is_among(settings.get(name), named) for name, named in self.settings.items())
            and not any(_is_among(settings.get(name), named) for name, named in self.unless.items())
        )  # fmt: skip


def release_of(version: str | None) -> tuple[int, ...]:
    """Return a version as numbers without zeros at the end, "0.17.0rc1" as (0, 17); empty where there are
    none."""
    found = re.search(r"\d+(?:\.\d+)*", version or "")
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _settings(facts: Facts) -> dict[str, Any]:
    """Return all that is known of how the engine was set, by names with underscores; what the engine
    made of its arguments counts more than they do."""
    given: dict[str, Any] = {"enable_prefix_caching": facts.prefix_caching}
    for part in (facts.server_args, facts.speculative_config, facts.engine_settings):
        named: Mapping[str, Any] = part or {}
        given |= {name.lstrip("-").replace("-", "_"): value for name, value in named.items()}
    return given


def _is_among(value: object, named: Iterable[object]) -> bool:
    return str(value).lower() in {str(one).lower() for one in named}


@cache
def known_defects() -> tuple[KnownDefect, ...]:
    """Return all rows. Raises InvalidInput, which names the row and the field, for a row that is not
    whole."""
    return rows_of(resources.files(__package__).joinpath("defects.toml").read_text("utf-8"))


def rows_of(text: str) -> tuple[KnownDefect, ...]:
    """Return the rows that a text in TOML holds. Raises InvalidInput for one that is not whole."""
    stated = tomllib.loads(text)["defect"]
    try:
        return TypeAdapter(tuple[KnownDefect, ...]).validate_python(stated)
    except ValidationError as error:
        first = error.errors()[0]
        place, *where = first["loc"]
        raise InvalidInput(
            f"defects.toml: row {int(place) + 1} ({stated[place].get('source', 'no source')}), "
            f"{'.'.join(map(str, where))}: {first['msg']}."
        ) from error
