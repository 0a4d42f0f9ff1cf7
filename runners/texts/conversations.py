"""Conversations and sessions: what of a talk is sent, under which columns, and by which hash it is known.

Of a conversation each turn of a user is a request, with all that was said before it. The answers before it are those
of the dataset and not the server's own: so every arm is sent the same. Among prompts such a request is one text, its
messages as JSON. Of a session a text is what its user says, as JSON too; the server's own answers come between.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from runners.planning.loads import TextForm
from warehouse.contract import flatten_messages, hash_text

#: Columns of a level's file, by names that GuideLLM takes for nothing else.
PROMPT, WHEN, MOST = "prompt", "relative_timestamp", "output_tokens_count"
MESSAGES, CATEGORY = "messages", "category"
#: Of a session, each with the number of the turn behind it; the pause comes after the turn's answer.
TURN, SYSTEM, PAUSE = "turn", "system", "requeue_delay"

Message = dict[str, str]
#: Who speaks, as datasets say it and as a server wants to hear it.
_ROLES = {
    "system": "system", "user": "user", "human": "user",
    "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant",
}  # fmt: skip


def turns(talk: Any) -> Iterator[str]:
    """Yield one text for each turn of a user in a list of messages, the turns before it included.

    A message without words or of another speaker, and a speaker who speaks twice, end it: chat
    templates of models refuse them. OpenAI's words are read and ShareGPT's (``from``, ``value``).
    """
    messages: list[Message] = []
    for row in talk if isinstance(talk, list) else ():
        if not isinstance(row, dict):
            return
        role = _ROLES.get(str(row.get("role", row.get("from"))))
        content = row.get("content", row.get("value"))
        twice = bool(messages) and messages[-1]["role"] == role
        if role is None or twice or not isinstance(content, str) or not content.strip():
            return
        messages.append({"role": role, "content": content})
        if role == "user":
            yield json.dumps(messages)


def messages_of(text: str) -> list[Message]:
    """Return the messages of a text of ``turns``, or what users say in a session."""
    messages: list[Message] = json.loads(text)
    return messages


def said_in(talk: Any) -> list[Message]:
    """Return what users say in a conversation, words of the system among it, no answers; a list of
    questions is a conversation too."""
    if isinstance(talk, list) and all(isinstance(one, str) and one.strip() for one in talk):
        return [{"role": "user", "content": one} for one in talk]
    *_, whole = ["[]", *turns(talk)]
    return [one for one in messages_of(whole) if one["role"] != "assistant"]


def ends_of(messages: Sequence[Message]) -> list[int]:
    """Return where the turns of a user end."""
    return [end for end, one in enumerate(messages, start=1) if one["role"] == "user"]


def prompt_hashes(text: str, request_format: str, form: TextForm = "prompt") -> list[str]:
    """Return the hash of each request that a text makes, as ingest finds it in a report: of a session's
    turns without the answers before them, which differ between arms."""
    if form == "prompt" and request_format != "chat_completions":
        return [hash_text(text)]
    messages = [{"role": "user", "content": text}] if form == "prompt" else messages_of(text)
    pairs = [(each["role"], each["content"]) for each in messages]
    ends = ends_of(messages) if form == "session" else [len(pairs)]
    return [hash_text(flatten_messages(pairs[:end])) for end in ends]


def columns_of(text: str, form: TextForm) -> dict[str, Any]:
    """Return the columns of a file that say what is sent."""
    row: dict[str, Any] = {PROMPT: text}
    if form == "conversation":
        row[MESSAGES] = messages_of(text)
    turn = 0
    for message in messages_of(text) if form == "session" else ():
        is_turn = message["role"] == "user"
        row[f"{TURN if is_turn else SYSTEM}_{turn}"] = message["content"]
        turn += is_turn
    return row
