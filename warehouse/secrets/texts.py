"""Takes credentials out of a text: by name, by what announces them, and by their own look.

RE2 finds the places and a cursor that never goes back takes the values out, so the time grows with
the length of the text and no faster. A name may have 128 letters and a quoted value 4,096.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import re2

from warehouse.secrets.shapes import (
    COLOUR,
    REMOVED,
    Secrecy,
    is_drawn,
    is_none,
    is_said_of,
    looks_random,
    may_be_written,
    scrub_shapes,
    secrecy,
)

# --- Words behind which a credential follows without a sign: ``wandb login …``, "password is …".


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


def _name_before(pattern: str, judge: Callable[[str], Judge | None]) -> _Announcement:
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
    _name_before(
        r"\b(?:getenv|putenv|setenv|setdefault|get)\(\s{0,8}\\*[\"']([A-Za-z_]\w*)\\*[\"']\s{0,8},\s{0,8}",
        _of_name,
    ),
    _row(r"\b(sshpass|mysql|mysqldump|docker login|podman login|az login)\b[^\n]{0,80}?\s-p\s*", _always),
    _row(r"\b(redis-cli)\b[^\n]{0,80}?\s-a\s+", _always),
    _row(r"(?:^|\s)(-[uU]|--user|--proxy-user)[\s=]+[\"']?[^\s:\"']{1,64}:", _no_number),
    _row(r"\b(curl|wget)\b[^\n]{0,200}?\s-b\s*[\"']?[\w.\-]{1,64}=", _always),
    _row(r"\b(ldap[a-z]{3,10})\b[^\n]{0,200}?\s-w\s*", _always),
    _name_before(r"\b(?:set|with|use)_?([A-Za-z]\w{0,63})\(\s{0,8}\\*[\"']", _of_name),
    _name_before(r"([A-Za-z][\w.\-]{0,127})\\*[\"']?\s?[:=][ \t]*(?:\r?\n|\\+n)+\s{0,64}", _of_name_above),
    _row(r"(?i)/(token|api[_-]?key|secret|password|hook)s?/+", _long_and_unlike_a_word),
    _name_before(r"(?i)\b(?:setenv|ENV|setx?)\s+(?:[-/][a-zA-Z]{1,4}\s+){0,3}([A-Za-z_]\w*)\s+", _of_name),
    _name_before(r"(?:^|\s)(?:-e|--env)[\s=]+[\"']?([A-Z_][A-Z0-9_]*)=", _of_variable),
    _name_before(
        r"(?i)\b(?:name|key|variable)\\*[\"']?\s{0,8}[:=]\s{0,8}\\*[\"']?([a-z_][\w.\-]{0,127})"
        r"\\*[\"']?(?:[\s,;{}\-]|\\+[nrt]){1,40}\\*[\"']?value\\*[\"']?\s{0,8}[:=]\s{0,8}",
        _of_name,
    ),
    _name_before(r"<([A-Za-z_][\w.\-]*)>", _of_name),
    _row(r"(?i)\b(bearer)\s+", _unlike_a_word),
    _row(r"(?i)\b(basic)\s+", _unlike_a_word),
    _row(
        r"(?i)(?:[?&;]|%3F|%26)(?:amp;)?(key|sig|signature|auth|code|hmac|x-amz-signature"
        r"|x-amz-security-token|x-amz-credential|x-goog-signature|x-goog-credential)(?:=|%3D)",
        _always,
    ),
)  # fmt: skip


# --- Takes credentials out of a text: by name, by what announces them, and by their own look.


#: Without one of these no name, no announcement and no armour is in a text.
_MAY_NAME = re2.compile(
    r"(?i)key|token|auth|bearer|basic|pass|pwd?|secret|cred(?:ential)?s?|psk|cookie|webhook|login|:\\*/\\*/|%2f%2f"
    r"|notify.url|connection.string|[?&](?:amp;)?[a-z\-]+(?:=|%3d)|%3f|%26|-----begin"
    r"|pat\\*[\"']?[ \t]*[=:]|(?:^|\s)-[eupUabw]|--env|--(?:proxy-)?user"
)
_ARMOUR = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
#: Lines without a space, or long words: what a key that was cut off has left.
_BODY = re.compile(
    r"[\s\\nr]*(?:[A-Za-z0-9+/=]{40,}+(?:\s|\\+[nr])*|[^\s\\\"']+(?:[\r\n]+|(?:\\+[nr])+|$|(?=[\"'])))*"
)
_COLOURS = rf"(?:(?:\x1b|\\+(?:x1b|u001b|033))?{COLOUR})*"
#: A name and what says that its value follows.
_NAMED = re2.compile(
    r"([A-Za-z0-9_$][\w.\-]*)(?:\\*[\"']{1,2}\]?|%22|%27|\])?"
    rf"({_COLOURS}[ \t]*(?:=>|->|:=|==?|:|%(?:25)*3[DdAa]|\\+u003[DdAa]){_COLOURS}(?:[ \t+*]|%20)*{_COLOURS})"
)
#: An option and its value as two words, also as they stand in a printed list.
_OPTION = re2.compile(r"--?([A-Za-z][\w.\-]*)(?:\\*[\"']{1,2},)?(?:\s|\\+[nrt]?)+")
#: Between two words of a command line, or of a printed list of them.
_GAP = re.compile(r"(?:\\*[\"']{1,2}\s{0,8},)?\s{1,8}(?=[^\s])")
_USER = re2.compile(r"((?::|%3[Aa])(?:(?:\\*/){2}|(?:%2[Ff]){2}))([^/?#\s\"'<>\\]+)(@|%40)")
_SCHEME = re.compile(
    r"(?:bearer|basic|token|apikey|digest|negotiate|aws4-hmac-sha256)(?:\s|%20|\+)+", re.I
)
#: What stands before a value: the mark of a block in YAML, a bracket, the letter of a Python text, the name of a type.
_OPENING = re.compile(
    r"(?:[|>][+-]?(?:\s|\\+n){1,64})?[\[(]?\s{0,8}(?:[bfruBFRU]{1,2}(?=\\*[\"'])|[A-Za-z]{1,16}\((?=\\*[\"']))?(''(?=[^\s'\",;)\]}])|\\*[\"']|%22|%27)?"
)
#: These signs end a value where a space, a name or nothing follows; else they are of it, or another key follows.
_BARE = re.compile(
    r"(?:[^\s\"',;&\\}\])<]|[,;&)\]](?=[^\s\"',;&\\}\])<=:]+(?:[\s\"',;&\\}\])<]|$)))*"
)
_BARE_IN_PERCENT = re.compile(r"(?:[^\s\"',;&\\}\])<%]|%(?!2[0267Cc]|7[Dd]))*")
_TO_END = re.compile(r"[^\r\n\"']*")
_WHOLE_LINE = ("cookie", "cookies", "authorization")
#: Between two texts of a list, and no name of a dictionary behind.
_NEXT = re.compile(r"\\*[\"']\s{0,8},\s{0,8}(\\*[\"'])(?![\w.\-]{1,128}\\*[\"']\s{0,8}[:=])")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{0,9})?(?:ms|s)?\.?")
_LONG_WORD, _SPACE = re2.compile(r"[A-Za-z0-9]{20,}"), re.compile(r"\s")
_QUOTED = 4096
#: So much of a value tells whether it is a credential; a longer one is not read again and again.
_HEAD = 512
_LAST_WORD = re.compile(r"[A-Za-z]+$")
_BEFORE = frozenset({"api", "access", "secret", "private", "account", "signing", "auth", "license"})

_Span = tuple[int, int]


def scrub_text(text: str) -> str:
    """Return a text without credentials; texts that cannot hold one come back as they are."""
    if not text.isascii():
        # A lone surrogate, which JSON can spell, is no UTF-8.
        text = text.encode("utf-8", "replace").decode("utf-8")
    if _MAY_NAME.search(text):
        for spans in (_armoured, _named, _options, _announced):
            text = _without(text, spans(text))
        text = _USER.sub(_without_user, text)
    text = scrub_shapes(text)
    # Alone it may be somebody's name of a run, by which runs are told apart.
    return _LONG_WORD.sub(_without_drawn, text) if _SPACE.search(text) else text


def _without_drawn(found: Any) -> str:
    return REMOVED if is_drawn(found[0]) else str(found[0])


def _without(text: str, spans: Iterator[_Span]) -> str:
    """Return the text with each span replaced; spans come in order."""
    parts, at = [], 0
    for start, end in spans:
        if start >= at:
            parts += [text[at:start], REMOVED]
            at = end
    return "".join((*parts, text[at:])) if parts else text


def _without_user(found: Any) -> str:
    known = found[2] in ("git", REMOVED)
    return str(found[0]) if known else f"{found[1]}{REMOVED}{found[3]}"


def _armoured(text: str) -> Iterator[_Span]:
    """Yield the spans of the bodies of private keys; of one that was cut off, all that looks like
    it."""
    ends = True
    for found in _ARMOUR.finditer(text):
        if text.startswith(REMOVED, found.end()):
            continue
        end = text.find("-----END", found.end()) if ends else -1
        ends = end >= 0
        body = _BODY.match(text, found.end())
        yield found.end(), end if ends else body.end() if body else found.end()


def _named(text: str) -> Iterator[_Span]:
    at = 0
    for found in _NAMED.finditer(text):
        if found.start(1) < at:
            continue
        sure = secrecy(_whole_name(text, found.start(1), found[1]))
        if sure is None:
            continue
        ends = _TO_END if found[1].lower().endswith(_WHOLE_LINE) else _BARE
        ends = _BARE_IN_PERCENT if "%" in found[2] else ends
        span = _value(text, found.end(), ends)
        if _counts_tokens(found[1], text[span[0] : span[1]]):
            continue
        if _is_secret(text, span, sure, _prose(found[2], found[1])):
            span = _whole(text, span, ends)
            yield span
            at = span[1]
        if "[" in text[found.end() : span[0]]:
            for other in _of_one_list(text, span[1]):
                yield other
                at = other[1]


def _counts_tokens(name: str, value: str) -> bool:
    """Return whether a number tells how many tokens: ``time to first token: 0.21``, ``token: 512``."""
    return name.islower() and name.endswith("token") and _NUMBER.fullmatch(value) is not None


def _of_one_list(text: str, at: int) -> Iterator[_Span]:
    """Yield the other values of a printed list whose first ended here: ``['key', 'key']``."""
    while found := _NEXT.match(text, at):
        end = _closing(text, found.end(), found[1])
        if end is None:
            return
        if not is_none(text[found.end() : end]):
            yield found.end(), end
        at = end


def _whole_name(text: str, start: int, name: str) -> str:
    """Return the name with the word before it, as in "API key", and without the %22 of a quote."""
    if text[start - 1 : start] == "%":
        return name[2:]
    if text[start - 1 : start] == " " and name.lower() in ("key", "keys", "token"):
        before = _LAST_WORD.search(text[max(0, start - 16) : start - 1])
        if before and before[0].lower() in _BEFORE:
            return f"{before[0]}_{name}"
    return name


def _prose(separator: str, name: str) -> bool:
    """Return whether a name and its separator may stand in a sentence: ``token: expired`` may,
    ``token=…`` and ``HF_TOKEN: …`` may not."""
    return separator.strip() == ":" and separator != ":" and name.isalpha()


def _value(text: str, at: int, ends: re.Pattern[str] = _BARE) -> _Span:
    """Return the span of the value that begins here, without its quotes; ``ends``: how far a value
    without quotes goes."""
    if text.startswith(REMOVED, at):
        return at, at + len(REMOVED)
    opening = _OPENING.match(text, at)
    start, quote = (opening.end(), opening[1]) if opening else (at, None)
    if quote and (end := _closing(text, start, quote)) is not None:
        return start, end
    scheme = None if ends is _TO_END else _SCHEME.match(text, start)
    start = scheme.end() if scheme else start
    if text.startswith(REMOVED, start):
        return start, start + len(REMOVED)
    value = ends.match(text, start, start + _HEAD)
    return start, value.end() if value else start


def _whole(text: str, span: _Span, ends: re.Pattern[str] = _BARE) -> _Span:
    """Extend the span to the end of its value, of which only a head was looked at."""
    if span[1] - span[0] < _HEAD:
        return span
    more = ends.match(text, span[1])
    return span[0], more.end() if more else span[1]


def _closing(text: str, start: int, quote: str) -> int | None:
    """Return where the quote closes that was opened; None where it does not. An escaped one closes
    nothing."""
    at, limit = start, min(len(text), start + _QUOTED)
    while (at := text.find(quote, at, limit)) >= 0:
        if quote.startswith("\\") or text[at - 1] != "\\" or at == start:
            return at
        at += 1
    return None


def _is_secret(text: str, span: _Span, sure: Secrecy, prose: bool) -> bool:
    value = text[span[0] : span[1]]
    if is_none(value) or value.startswith(REMOVED):
        return False
    if sure == "perhaps":
        return looks_random(value)
    quoted = text[span[0] - 1 : span[0]] in ("'", '"')
    return quoted or not prose or not is_said_of(value)


def _options(text: str) -> Iterator[_Span]:
    at = 0
    for found in _OPTION.finditer(text):
        before = text[found.start() - 1 : found.start()]
        if found.start() < at or before not in ("", " ", "\t", "\n", "'", '"', "[", "(", "=", ","):
            continue
        sure = secrecy(found[1])
        span = _value(text, found.end())
        if sure is None or text[span[0] : span[0] + 1] == "-":
            continue
        if _is_secret(text, span, sure, prose=False):
            span = _whole(text, span)
            yield span
            at = span[1]
            for span in _further_keys(text, found[1], at):
                yield span
                at = span[1]


def _further_keys(text: str, option: str, at: int) -> Iterator[_Span]:
    """Yield the other values of an option that takes several: vLLM's ``--api-key one two``."""
    while option.lower().endswith("key") and (found := _GAP.match(text, at)):
        start, end = _value(text, found.end())
        if text[start : start + 1] in ("", "-") or not looks_random(text[start:end]):
            return
        span = _whole(text, (start, end))
        yield span
        at = span[1]


def _announced(text: str) -> Iterator[_Span]:
    end = 0
    for at, judge in sorted(announced(text), key=lambda one: one[0]):
        if at < end:
            continue
        span = _value(text, at)
        value = text[span[0] : span[1]]
        if not is_none(value) and not value.startswith(REMOVED) and judge(value):
            span = _whole(text, span)
            yield span
            end = span[1]
