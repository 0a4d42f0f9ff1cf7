"""How a launch came to run where it runs, told by the environment that its executor gave it.

``placement()`` goes into each record: a neighbour on the same machine is a reason for noise.
"""

import os
from collections.abc import Mapping

EXECUTOR = "DRAFTBOARD_EXECUTOR"
PARALLEL = "DRAFTBOARD_PARALLEL"


def placement(environ: Mapping[str, str] | None = None) -> dict[str, str | int]:
    """Return ``executor``, and ``launches_side_by_side`` where this machine may run several at
    once."""
    given = os.environ if environ is None else environ
    by = given.get(EXECUTOR, "slurm" if "SLURM_JOB_ID" in given else "local")
    found: dict[str, str | int] = {"executor": by}
    if PARALLEL in given:
        found["launches_side_by_side"] = int(given[PARALLEL])
    return found
