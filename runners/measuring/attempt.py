"""One try at a cell, before it is known how it goes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runners.serving.diagnosis import Diagnosis


@dataclass(frozen=True)
class Attempt:
    """One try at a cell: which one it is, when it began, how long its server took to start, what
    the server says of itself in short and in whole; ``changed`` tells after the load why the server
    is another one."""

    number: int
    server_start_s: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    changed: Callable[[], Diagnosis | None] = lambda: None
    began: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
