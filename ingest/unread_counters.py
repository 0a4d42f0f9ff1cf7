"""The metrics files of a drop that hold no counters: told, since an acceptance may be missing for it."""

from collections.abc import Iterator

from ingest.prometheus import Snapshot
from ingest.samples import Series
from warehouse.rows import Flag

#: A snapshot beside the other one, each with the name of its file.
Named = tuple[str, Snapshot | None]


def unread_snapshots(before: Named, after: Named, series: Series) -> Iterator[str]:
    """Yield which of two files holds none of the counters that it should; one that is not there should
    where the other one is and no sample was taken."""
    for (name, own), (_, other) in ((before, after), (after, before)):
        counted = None if other is None else other.counters
        if own is None:
            unread = counted is not None and not series
        else:
            unread = own.broken or not own.values
            if counted is not None:
                # A position that was counted once stays; one may come with the first draft.
                cut = name == after[0] and len(own.by_position) < len(counted.by_position)
                unread |= own.counters is None or cut
        if unread:
            yield name


def is_unread(series: Series) -> bool:
    """Return whether samples hold nothing that a server says."""
    return not any(snapshot.values for snapshot in series.snapshots)


def told(names: tuple[str, ...]) -> tuple[Flag, ...]:
    """Return the flag of a cell whose drop has such files."""
    if not names:
        return ()
    return (
        Flag(
            "counters_unread", "warning",
            f"No counters of the server can be read from {' and '.join(names)} (empty, damaged, cut "
            "off or missing), so acceptance was not taken from there.",
        ),
    )  # fmt: skip
