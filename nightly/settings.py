"""What a call of the nightly is asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from warehouse.nights import Limits


@dataclass(frozen=True)
class Settings:
    """What a call of the nightly is asked for. ``gate``: options of `draftboard gate`; ``run``:
    more arguments of `draftboard run`; ``link``: address of the dashboard, without a slash at its
    end; ``echo`` gets what the stages say."""

    study: Path
    results: Path
    warehouse: Path
    echo: Callable[[str], None]
    limits: Limits = Limits()
    gate: tuple[str, ...] = ()
    open_exit: int = 2
    run: tuple[str, ...] = ()
    link: str = ""
    dry_run: bool = False
    digest: bool = False
    again: bool = field(default=False)
    """Begin another night although this one is done."""
