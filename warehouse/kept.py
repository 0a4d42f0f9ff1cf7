"""What was made of one generation of the warehouse: each thing once, for everybody who asks."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Source = TypeVar("Source")


@dataclass
class Entry(Generic[Source]):
    """A value under its key, how it is made, when it was last asked for (monotonic seconds), and the
    seconds of its thread that it took."""

    key: str
    make: Callable[[Source], Any]
    value: Future[Any] = field(default_factory=Future)
    at: float = 0.0
    took: float = 0.0


class Kept(Generic[Source]):
    """Values by key; beyond ``most`` the ones that nobody asked for longest go.

    Who asks for what is just being made waits for it. An error is told to all who wait, and is not
    kept.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._entries: OrderedDict[str, Entry[Source]] = OrderedDict()

    def get(self, key: str, make: Callable[[Source], Any], source: Source) -> Any:
        """Return the value under ``key``, made of ``source`` where nobody has asked for it yet."""
        with self._guard:
            is_new = key not in self._entries
            entry = self._entries.setdefault(key, Entry(key, make))
            entry.at = time.monotonic()
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        if is_new:
            self._make(entry, source)
        return entry.value.result()

    def recent(self, seconds: float) -> list[Entry[Source]]:
        """Return what was made and asked for in the last ``seconds``, the latest first."""
        since = time.monotonic() - seconds
        with self._guard:
            entries = list(reversed(self._entries.values()))
        return [one for one in entries if one.at >= since and one.value.done()]

    def _make(self, entry: Entry[Source], source: Source) -> None:
        began = time.thread_time()
        try:
            value = entry.make(source)
        except BaseException as error:  # noqa: BLE001  # Others wait: they are told, whatever it is.
            with self._guard:
                self._entries.pop(entry.key, None)
            entry.value.set_exception(error)
        else:
            entry.took = time.thread_time() - began
            entry.value.set_result(value)
