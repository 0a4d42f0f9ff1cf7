"""Requests before a level: they fill kernels and caches of the engine, and are not measured."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runners.measuring.load_request import ROUTES, sampling, served_model
from runners.planning.plan import PlannedCell
from runners.planning.study import Study
from runners.serving.endpoint import send
from runners.texts.conversations import Message, messages_of

_LIMIT_S = 600.0
_MAX_TOKENS = 64


def warm_up(url: str, study: Study, cell: PlannedCell, texts: Sequence[str]) -> None:
    """Send the level's warm-up requests, as many at a time as it has. Raises OSError or HTTPException.

    ``texts`` belong to no level; where the dataset has too few, sentences of our own follow.
    """
    count = study.window.warm_up_at(cell.most_at_once)
    if not count:
        return
    own = [f"Warm-up {number}: count from {number} upwards in words." for number in range(count)]
    spoken = study.dataset(cell.dataset).conversations
    asked = [messages_of(text) if spoken else text for text in texts]
    bodies = [_body(study, one) for one in [*asked, *own][:count]]
    with ThreadPoolExecutor(min(count, cell.most_at_once)) as pool:
        list(
            pool.map(lambda body: send(url + ROUTES[study.request.format], body, _LIMIT_S), bodies)
        )


def _body(study: Study, asked: str | list[Message]) -> dict[str, Any]:
    body = {"model": served_model(study), "max_tokens": _MAX_TOKENS, **sampling(study)}
    if not isinstance(asked, str):
        return body | {"messages": asked}
    if study.request.format == "chat_completions":
        return body | {"messages": [{"role": "user", "content": asked}]}
    return body | {"prompt": asked}
