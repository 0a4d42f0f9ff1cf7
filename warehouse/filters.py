"""What a reader chose to look at: the same words in the frame, in the URL and in the SQL."""

from dataclasses import dataclass, fields

#: How a value that nobody stated is shown and filtered.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Filters:
    """Values to keep, field by field; an empty tuple keeps everything.

    Values are strings, also for ``tensor_parallel_size``; ``"unknown"`` stands for a value that
    nobody stated. ``arm`` holds ``arms.arm_label`` strings.
    """

    model: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    engine_version: tuple[str, ...] = ()
    dataset: tuple[str, ...] = ()
    tensor_parallel_size: tuple[str, ...] = ()
    arm: tuple[str, ...] = ()
    study: tuple[str, ...] = ()
    #: First day (UTC, ``2026-11-21``) on which a cell may have started; empty: any, or unknown.
    since: str = ""
    #: Last such day.
    until: str = ""

    def as_parameters(self) -> dict[str, list[str] | str | None]:
        """Return the parameter ``$filters`` of the queries in ``warehouse/sql``."""
        days = {"since": self.since or None, "until": self.until or None}
        return {name: list(getattr(self, name)) for name in FILTER_FIELDS} | days


#: The fields that hold lists of values.
FILTER_FIELDS: tuple[str, ...] = tuple(f.name for f in fields(Filters) if f.default == ())
