"""Requests before a level: they fill kernels and caches of the engine, and are not measured.

An engine compiles kernels for the sizes of batches that it meets. So prompts as long as the level's come
in bursts that double up to as many as the level has in flight, each prompt with a beginning of its
own: one that a cache of prefixes remembers would be no prompt to it.
"""

import math
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from typing import Any

from runners.measuring.load_request import ROUTES, sampling, served_model
from runners.planning.plan import PlannedCell
from runners.planning.study import LEAST_WARM_UP, Study
from runners.serving.endpoint import send
from runners.texts import prompts
from runners.texts.conversations import messages_of
from runners.texts.prompt_files import PromptFile

_LIMIT_S = 600.0
_MAX_TOKENS = 64
#: Where nothing holds requests back, all of a level might be in flight, and hardly ever are.
_MOST_UNBOUND = 128


def warm_up(url: str, study: Study, cell: PlannedCell, given: PromptFile) -> list[int]:
    """Send the level's warm-up requests and return how many went out at once, burst by burst. Raises
    OSError or HTTPException.

    The texts belong to no level; where the dataset has none to spare, the words of the level's own
    are shuffled.
    """
    sizes, bodies = bursts(study, cell), _bodies(study, cell, given)
    route = url + ROUTES[study.request.format]
    for size in sizes:
        with ThreadPoolExecutor(size) as pool:
            list(pool.map(lambda body: send(route, body, _LIMIT_S), islice(bodies, size)))
    return sizes


def bursts(study: Study, cell: PlannedCell) -> list[int]:
    """Return 1, 2, 4 … and what the level has in flight; where the study states a number, so many
    and no more."""
    stated, bound = study.window.warm_up_requests, cell.concurrency or _MOST_UNBOUND
    most = min(study.window.warm_up_at(bound), bound, cell.most_at_once)
    if stated is not None:
        return [min(most, stated - sent) for sent in range(0, stated, most or 1)]
    smaller = [1 << power for power in range((most - 1).bit_length())]
    return [*smaller, *[most] * math.ceil(LEAST_WARM_UP / most)]


def _bodies(study: Study, cell: PlannedCell, given: PromptFile) -> Iterator[dict[str, Any]]:
    own = () if given.conversations else prompts.read(given.path)
    texts = [*given.warm_up] or [*map(_shuffled, own)] or ["Count upwards in words."]
    most = study.dataset(cell.dataset).max_tokens or study.request.max_tokens or _MAX_TOKENS
    shared = {
        "model": served_model(study), "max_tokens": min(most, _MAX_TOKENS), **sampling(study),
    }  # fmt: skip
    chat, spoken = study.request.format == "chat_completions", given.conversations and given.warm_up
    for number in count():
        text = texts[number % len(texts)]
        first, *rest = messages_of(text) if spoken else [{"role": "user", "content": text}]
        # As long as it was, and nowhere cached.
        mark = f"{cell.dataset} {cell.load} {number}: "
        marked = mark + first["content"][len(mark) :]
        messages = [first | {"content": marked}, *rest]
        yield shared | ({"messages": messages} if chat else {"prompt": marked})


def _shuffled(text: str) -> str:
    words = text.split()
    random.Random(text).shuffle(words)
    return " ".join(words)
