"""A study of sessions as the runner leaves it: three turns that wait for the server's own answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.commands import made

SESSIONS, TURNS, OUTPUT, AT_ONCE = 12, 3, 49, 4
#: Seconds to the first token of each turn, by arm (K); a step between tokens takes the same in all turns.
FIRST = {0: (0.10, 0.20, 0.30), 3: (0.10, 0.10, 0.10)}
PACE = {0: 0.020, 3: 0.010}


@dataclass(frozen=True)
class Talked:
    """A study of sessions. ``told``: whether the report says which turn a request is; ``sessions``: of each
    launch; ``turns``: of each session; ``hits``: share of looked-up prompt tokens that counters say were cached."""

    told: bool = True
    sessions: int = SESSIONS
    turns: int = TURNS
    launches: int = 3
    hits: float | None = 0.5


def messages(session: int, turn: int, arm: int) -> list[dict[str, str]]:
    """What is sent: the server's own answers, another one for each arm, stand before the turn."""
    said = [{"role": "system", "content": "Be brief."}]
    for before in range(turn):
        said += [
            {"role": "user", "content": f"question {session}.{before}?"},
            {"role": "assistant", "content": f"answer of K={arm} to {session}.{before}"},
        ]
    return [*said, {"role": "user", "content": f"question {session}.{turn}?"}]


def requests(study: Talked, k: int, slow: float, started: float) -> list[dict[str, Any]]:
    rows = []
    for session in range(study.sessions):
        begin = started + session // AT_ONCE * 5 + 0.01 * (session % AT_ONCE)
        for turn in range(study.turns):
            first = begin + FIRST[k][turn] * slow
            last = first + (OUTPUT - 1) * PACE[k] * slow
            told = {"turn_index": turn, "conversation_id": f"{session}"} if study.told else {}
            said = messages(session, turn, k if study.told else 0)
            rows.append(made.request(said, (begin, first, last), 80 * (turn + 1), OUTPUT, **told))
            begin = last + 0.01
    return rows


def write(study: Talked, results: Path) -> None:
    scatter, started = np.random.default_rng(7), 1_700_000_000.0
    for launch in range(study.launches):
        for k in (0, 3):
            place = results / f"k{k}-r{launch}"
            slow = float(np.exp(scatter.normal(0, 0.01)))
            said = made.record("talked", "talks", k, AT_ONCE, launch)
            made.write(place, said, requests(study, k, slow, started), started)
            if study.hits is not None:
                for name, looked in (("metrics-before.prom", 0), ("metrics-after.prom", 1000)):
                    counts = {"queries": looked, "hits": round(looked * study.hits)}
                    (place / name).write_text("".join(
                        f'vllm:prefix_cache_{series}_total{{engine="0"}} {n}.0\n' for series, n in counts.items()
                    ))  # fmt: skip
            started += 600
