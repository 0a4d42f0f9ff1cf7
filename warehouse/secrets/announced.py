"""Words behind which a credential follows without a sign: ``wandb login …``, "password is …"."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import re2

from warehouse.secrets.names import may_be_written, secrecy
from warehouse.secrets.words import is_said_of, looks_random

Judge = Callable[[str], bool]


@dataclass(frozen=True)
class _Announcement:
    pattern: Any
    """Ends where the value begins."""
    judge: Callable[[str], Judge | None]
    """From the pattern's first group: which values are credentials; None: none is."""


def announced(text: str) -> Iterator[tuple[int, Judge]]:
    """Yield each place where a credential may begin, with the function that tells whether it is
    one."""
    for one in _ANNOUNCEMENTS:
        for found in one.pattern.finditer(text):
            judge = one.judge(found[1] or "")
            if judge is not None:
                yield found.end(), judge


def _always(value: str) -> bool:
    return bool(value)


def _unlike_a_word(value: str) -> bool:
    return not value.startswith("-") and looks_random(value)


def _long_and_unlike_a_word(value: str) -> bool:
    part = value.partition("/")[0]
    return len(part) > 11 and looks_random(part)


def _no_predicate(value: str) -> bool:
    return not is_said_of(value)


def _no_number(value: str) -> bool:
    """Not those of a container's user and group, nor the address of curl's or a load generator's
    ``-u``."""
    return bool(value) and not value.isdigit() and not value.startswith("//")


def _of_name(name: str) -> Judge | None:
    sure = secrecy(name)
    if sure is None:
        return None
    return _always if sure == "certain" else looks_random


def _of_name_above(name: str) -> Judge | None:
    """Of what stands on the next line: another name of a nested value is none."""
    if secrecy(name) is None:
        return None
    return lambda value: not value.startswith("-") and ":" not in value and looks_random(value)


def _of_variable(name: str) -> Judge | None:
    return None if may_be_written(name) else _always


def _row(pattern: str, judge: Judge) -> _Announcement:
    return _Announcement(re2.compile(pattern), lambda _: judge)


def _named(pattern: str, judge: Callable[[str], Judge | None]) -> _Announcement:
    """Return an announcement whose first group is the name that decides."""
    return _Announcement(re2.compile(pattern), judge)


#: Tools that take a credential as the word behind ``login``.
_TOOLS = (
    "wandb|vault|hf|huggingface-cli|comet|ngc|gh|glab|npm|modal|databricks|kaggle|clearml|mlflow"
    "|neptune|replicate|runpod|runpodctl|together|az|docker|podman|helm|oras|argocd|redis-cli"
)
_PASSWORD = "password|passphrase|passcode|passwd|pwd"
_OTHER = "secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|credentials?"

_ANNOUNCEMENTS = (
    _row(rf"(?i)\b({_PASSWORD})s?\s+(?:is|was|are|equals)\s*:?\s+", _no_predicate),
    _row(rf"(?i)\b({_OTHER})s?\s+(?:is|was|are|equals)\s*:?\s+", _unlike_a_word),
    _row(rf"(?i)\b({_PASSWORD}|{_OTHER})\s+", _unlike_a_word),
    _row(
        rf"(?i)\b({_TOOLS})(?:[ \t]+auth|[ \t]+registry)?[ \t]+login[ \t]+"
        r"(?:--?[\w\-]+(?:=[^\s]*)?[ \t]+)*",
        _unlike_a_word,
    ),
    _row(rf"(?i)\b({_TOOLS})\.login\(\s{{0,8}}(?:(?:key|token|api_key)\s?=\s?)?", _unlike_a_word),
    _row(r"(?i)\b(api[ _-]?key|token|password) (?:provided|given|used|received)\s?:\s+", _unlike_a_word),
    _row(rf"(?i)\b({_PASSWORD})s?\s+(?:(?:for|of)\s+[^\s:]{{1,64}}|\([^()\n]{{1,64}}\))\s?:\s+", _no_predicate),
    _row(r"\b(auth)\s?=\s?\(\s{0,8}\\*[\"'][^\"'\\]{0,64}\\*[\"']\s{0,8},\s{0,8}", _always),
    _named(
        r"\b(?:getenv|putenv|setenv|setdefault|get)\(\s{0,8}\\*[\"']([A-Za-z_]\w*)\\*[\"']\s{0,8},\s{0,8}",
        _of_name,
    ),
    _row(r"\b(sshpass|mysql|mysqldump|docker login|podman login|az login)\b[^\n]{0,80}?\s-p\s*", _always),
    _row(r"\b(redis-cli)\b[^\n]{0,80}?\s-a\s+", _always),
    _row(r"(?:^|\s)(-[uU]|--user|--proxy-user)[\s=]+[\"']?[^\s:\"']{1,64}:", _no_number),
    _row(r"\b(curl|wget)\b[^\n]{0,200}?\s-b\s*[\"']?[\w.\-]{1,64}=", _always),
    _row(r"\b(ldap[a-z]{3,10})\b[^\n]{0,200}?\s-w\s*", _always),
    _named(r"\b(?:set|with|use)_?([A-Za-z]\w{0,63})\(\s{0,8}\\*[\"']", _of_name),
    _named(r"([A-Za-z][\w.\-]{0,127})\\*[\"']?\s?[:=][ \t]*(?:\r?\n|\\+n)+\s{0,64}", _of_name_above),
    _row(r"(?i)/(token|api[_-]?key|secret|password|hook)s?/+", _long_and_unlike_a_word),
    _named(r"(?i)\b(?:setenv|ENV|setx?)\s+(?:[-/][a-zA-Z]{1,4}\s+){0,3}([A-Za-z_]\w*)\s+", _of_name),
    _named(r"(?:^|\s)(?:-e|--env)[\s=]+[\"']?([A-Z_][A-Z0-9_]*)=", _of_variable),
    _named(
        r"(?i)\b(?:name|key|variable)\\*[\"']?\s{0,8}[:=]\s{0,8}\\*[\"']?([a-z_][\w.\-]{0,127})"
        r"\\*[\"']?(?:[\s,;{}\-]|\\+[nrt]){1,40}\\*[\"']?value\\*[\"']?\s{0,8}[:=]\s{0,8}",
        _of_name,
    ),
    _named(r"<([A-Za-z_][\w.\-]*)>", _of_name),
    _row(r"(?i)\b(bearer)\s+", _unlike_a_word),
    _row(r"(?i)\b(basic)\s+", _unlike_a_word),
    _row(
        r"(?i)(?:[?&;]|%3F|%26)(?:amp;)?(key|sig|signature|auth|code|hmac|x-amz-signature"
        r"|x-amz-security-token|x-amz-credential|x-goog-signature|x-goog-credential)(?:=|%3D)",
        _always,
    ),
)  # fmt: skip
