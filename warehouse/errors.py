"""Every error a user can meet, each one a sentence that says what, where and what to do next.

DraftboardError
├─ InvalidInput        a foreign file cannot be read as a result
│  └─ NothingToReport  no arm has a partner, so there is no verdict
├─ UnknownKey          a key or value is not in the contract
├─ WarehouseMissing    there is no warehouse at this path yet
├─ WarehouseBusy       another process is writing
├─ WarehouseOutdated   written by another schema version
├─ WarehouseDamaged    a file that the warehouse lists is missing or altered
├─ WarehouseUnreachable  the object store of a warehouse does not do what was asked
├─ LostRace            another machine published a generation first
├─ StudyError          a study file cannot be read, or asks for what cannot be
└─ RunnerError         a launch, a load or an executor cannot go on
"""


class DraftboardError(Exception):
    """Something the user can act on; its text is printed as it stands."""

    #: Exit status of a command that ends with this error.
    status = 1


class InvalidInput(DraftboardError):
    """A foreign file cannot be read as a result."""


class NothingToReport(InvalidInput):
    """No arm has a partner: a study of one arm, or one that was stopped before its second."""

    status = 3


class UnknownKey(DraftboardError):
    """A key or value is not in the contract."""


class WarehouseMissing(DraftboardError):
    """There is no warehouse at this path yet."""


class WarehouseBusy(DraftboardError):
    """Another process holds the writer's lock."""


class WarehouseOutdated(DraftboardError):
    """The warehouse was written by another schema version."""


class WarehouseDamaged(DraftboardError):
    """A file that the warehouse lists is missing or altered."""


class WarehouseUnreachable(DraftboardError):
    """The object store of a warehouse does not do what was asked."""


class LostRace(DraftboardError):
    """Another machine published a generation first; nothing was changed."""


class StudyError(DraftboardError):
    """A study file cannot be read, or asks for what cannot be."""


class RunnerError(DraftboardError):
    """A launch, a load or an executor cannot go on."""
