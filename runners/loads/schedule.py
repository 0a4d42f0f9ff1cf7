"""Which prompt is sent when: a trace brings times and lengths, a dataset the texts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from runners.loads.trace import Arrival
from runners.planning.asked import trace_of
from runners.planning.datasets import Dataset
from runners.planning.loads import LoadLevel
from runners.planning.study import Study


class Texts(Protocol):
    """Any object with a text."""

    @property
    def text(self) -> str:
        """The text."""
        ...


One = TypeVar("One", bound=Texts)


def arrivals_of(study: Study, dataset: Dataset, level: LoadLevel) -> tuple[Arrival, ...]:
    """Return when a trace's requests are sent, their answers no longer than the study allows;
    nothing for another load."""
    if level.trace is None:
        return ()
    most = dataset.max_tokens or study.request.max_tokens
    found = trace_of(study, level).arrivals
    return tuple(replace(one, output_tokens=_capped(one.output_tokens, most)) for one in found)


def arranged(prompts: Sequence[One], arrivals: Sequence[Arrival]) -> tuple[One, ...]:
    """Return the prompts in the order of the arrivals, the longest where the trace's was the
    longest.

    By rank and not by tokens: so bursts of long requests stay bursts of long requests, whatever
    texts there are. Without lengths, or without a trace, the order stays.
    """
    lengths = [one.input_tokens for one in arrivals]
    if not lengths or None in lengths:
        return tuple(prompts)
    places = sorted(range(len(lengths)), key=lambda place: lengths[place] or 0)
    by_length = sorted(prompts, key=lambda one: len(one.text))
    placed = dict(zip(places, by_length, strict=True))
    return tuple(placed[place] for place in range(len(prompts)))


def _capped(tokens: int | None, most: int | None) -> int | None:
    """Return how long an answer may be, at most ``most`` tokens; None where the trace says none,
    since an answer of no tokens was no answer."""
    if not tokens:
        return None
    return tokens if most is None else min(tokens, most)
