"""The server's counters before and after a load; before it they must be those of the arm."""

from pathlib import Path

from runners.measuring import sampler
from runners.planning.plan import Launch
from runners.serving.agreement import wrong_arm
from runners.serving.diagnosis import Diagnosis
from runners.serving.endpoint import BadStatus


def count(url: str, path: Path) -> str:
    """Keep the counters and return them; an engine without ``/metrics`` leaves no file.

    OSError or HTTPException where the server does not answer.
    """
    try:
        text = sampler.snapshot(url)
    except BadStatus as error:
        if error.unknown_route:
            return ""
        raise
    path.write_text(text, encoding="utf-8")
    return text


def count_before(url: str, path: Path, launch: Launch) -> Diagnosis | None:
    """Keep the counters, and say why they are not those of this arm; None where they are."""
    return wrong_arm(count(url, path), launch)
