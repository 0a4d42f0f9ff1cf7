"""Who reads, as what, and why somebody may not."""

from dataclasses import dataclass
from typing import Literal, get_args

from warehouse.errors import DraftboardError

#: From the least to the most; who has one has those before it.
Role = Literal["viewer", "editor", "admin"]
#: The names of those who read where nobody logs in.
LOCAL, ANYBODY = "local", "anybody"
_NEEDED = {
    "viewer": "to see results",
    "editor": "to upload, to write notes and to exclude runs",
    "admin": "to read the audit trail",
}


@dataclass(frozen=True)
class User:
    """Who reads: ``name`` for people, ``email`` empty where the provider did not vouch for it."""

    name: str
    email: str
    role: Role

    @property
    def account(self) -> str:
        """The name under which quotas count this person: the address, else the name; empty without
        a login."""
        return self.email or ("" if self.name in (LOCAL, ANYBODY) else self.name)

    def may(self, role: Role) -> bool:
        """Return whether this person has ``role`` or more."""
        order = get_args(Role)
        return order.index(self.role) >= order.index(role)


class Refused(DraftboardError):
    """A visitor may see nothing; the text says why."""


class LoginNeeded(Refused):
    """Nobody is logged in, or no longer."""


class NotAllowed(Refused):
    """Somebody is logged in whom the settings do not let in, or not to this."""


def require_role(user: User, role: Role) -> User:
    """Return the user. Raises NotAllowed for one who has less than ``role``."""
    if not user.may(role):
        raise NotAllowed(f"Your role is {user.role}: {_NEEDED[role]} takes the role {role}.")
    return user
