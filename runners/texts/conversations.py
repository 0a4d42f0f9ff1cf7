"""Conversations: each turn of a user is a request, with all that was said before it.

The answers before it are those of the dataset and not the server's own: so every arm is sent the
same, and the requests pair. Among prompts such a request is one text, its messages as JSON.
"""

import json
from collections.abc import Iterator
from typing import Any

from warehouse.prompt_hash import flatten_messages

Message = dict[str, str]
#: Who speaks, as datasets say it and as a server wants to hear it.
_ROLES = {
    "system": "system", "user": "user", "human": "user",
    "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant",
}  # fmt: skip


def turns(found: Any) -> Iterator[str]:
    """Yield one text for each turn of a user in a list of messages, the turns before it included.

    A message without words or of another speaker, and a speaker who speaks twice, end it: chat
    templates of models refuse them.
    """
    said: list[Message] = []
    for one in found if isinstance(found, list) else ():
        message = _message(one)
        if message is None or (said and said[-1]["role"] == message["role"]):
            return
        said.append(message)
        if message["role"] == "user":
            yield json.dumps(said)


def messages_of(text: str) -> list[Message]:
    """Return the messages of a text of ``turns``."""
    said: list[Message] = json.loads(text)
    return said


def flattened(text: str) -> str:
    """Return the messages as ingest reads them in a report."""
    return flatten_messages([(one["role"], one["content"]) for one in messages_of(text)])


def length(text: str) -> int:
    """Return the characters of all messages together."""
    return sum(len(one["content"]) for one in messages_of(text))


def _message(one: Any) -> Message | None:
    """Return a message in OpenAI's words; ShareGPT says ``from`` and ``value``."""
    if not isinstance(one, dict):
        return None
    role = _ROLES.get(str(one.get("role", one.get("from"))))
    content = one.get("content", one.get("value"))
    if role is None or not isinstance(content, str) or not content.strip():
        return None
    return {"role": role, "content": content}
