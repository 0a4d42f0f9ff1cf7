"""Messages by Apprise. Its addresses are secrets: they come from the environment and go nowhere else."""

import hashlib
import logging
import os
import re
import warnings
from dataclasses import dataclass, field

from nightly.outbox import Message

#: Addresses as Apprise knows them, separated by spaces or newlines.
VARIABLE = "DRAFTBOARD_NOTIFY_URLS"
#: Seconds for one message to one receiver, all that it needs.
_PATIENCE_S = 30
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_STATUS = re.compile(r"error=(\d{3})\b")


@dataclass(frozen=True)
class Receivers:
    """The addresses by a name that may be shown: the service, and four digits that tell two apart.

    Four hexadecimal digits of a hash say next to nothing of what they stand for.
    """

    addresses: dict[str, str] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the receivers, such as ``slack-3fa1``."""
        return tuple(self.addresses)

    def deliver(self, message: Message, name: str) -> str | None:
        """Send one message: None where the service took it, else why not, without its address."""
        import apprise

        # Apprise may name an address in its log; nothing of it is shown but a status.
        logging.getLogger(apprise.logger.name).handlers = [logging.NullHandler()]
        logging.getLogger(apprise.logger.name).propagate = False
        with warnings.catch_warnings():
            # Apprise loads all its services, some of which use what Python has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            service = apprise.Apprise.instantiate(self.addresses[name])
        if service is None:
            return f"Apprise does not understand the address; correct it in {VARIABLE}"
        sent = apprise.Apprise(service).notify(
            body=message.body,
            title=message.title,
            notify_type=apprise.NotifyType(message.kind),
            body_format=apprise.NotifyFormat.TEXT,
            timeout=_PATIENCE_S,
        )
        return None if sent else _why(" ".join(entry.message for entry in sent.logs()))


def receivers() -> Receivers:
    """Return the receivers that the environment names; none where the variable is not set."""
    found = dict.fromkeys(os.environ.get(VARIABLE, "").split())
    return Receivers({_name(address): address for address in found})


def without_addresses() -> dict[str, str]:
    """Return the environment for the stages without the addresses: an engine has no business with
    these secrets."""
    return {name: value for name, value in os.environ.items() if name != VARIABLE}


def _name(address: str) -> str:
    scheme = _SCHEME.match(address)
    digits = hashlib.sha256(address.encode()).hexdigest()[:4]
    return f"{scheme[1].lower() if scheme else 'unknown'}-{digits}"


def _why(said: str) -> str:
    status = _STATUS.search(said)
    answer = f"it answered with status {status[1]}" if status else "it does not answer as it should"
    return f"{answer}; the next call tries again"
