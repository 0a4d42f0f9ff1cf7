"""``draftboard ingest --rebuild`` without paths: all that a warehouse holds, read again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ingest.discovery import Unit, find_units
from ingest.pipeline import Intake, Options, Outcome, Store
from ingest.settings import checked_facts
from ingest.table import column_map
from warehouse.errors import InvalidInput
from warehouse.store_tables import KnownSource

_NAMED = 3


def read_again(
    known: Sequence[KnownSource],
    store: Store,
    options: Options,
    advance: Callable[[Unit], None] = lambda unit: None,
) -> Outcome:
    """Take in every source anew, each with what ``--set`` said of it, and publish all at once.

    Raises InvalidInput, and publishes nothing, where one of them is not there as it was.
    """
    intake = Intake(store, advance)
    for _ in intake.take_in(_units(known, options)):
        pass
    outcome = intake.outcome
    lost = [
        source
        for source in known
        if not (store.known(source.source_id) or source.source_id in intake.superseded)
    ]
    if lost:
        raise _incomplete(lost, len(known), outcome)
    outcome.generation = store.commit()
    return outcome


def _units(known: Sequence[KnownSource], options: Options) -> Iterator[tuple[Unit, Options]]:
    read = set()
    for source in known:
        said = source.settings.get("columns")
        own = {key: value for key, value in source.settings.items() if key != "columns"}
        settings = checked_facts(own | options.settings)
        # The results of a collection are a source each.
        place = source.path, repr(settings)
        units = () if place in read else find_units([source.path])
        read.add(place)
        for unit in units:
            if isinstance(unit, Unit):
                columns = None if said is None else column_map(said)
                yield unit, replace(options, settings=settings, columns=columns)


def _incomplete(lost: Sequence[KnownSource], total: int, outcome: Outcome) -> InvalidInput:
    reasons = {rejection.path: rejection.reason for rejection in outcome.rejected}
    named = [
        f"{source.path}: {reasons.get(str(source.path), 'not there, or changed since')}"
        for source in lost[:_NAMED]
    ]
    more = f"; and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    return InvalidInput(
        f"Nothing was changed, since {len(lost)} of {total} results cannot be read again as they "
        f"were ({'; '.join(named)}{more}): put them back, or start anew from others with: "
        "draftboard ingest PATHS --rebuild"
    )
