"""What a credential looks like and how it is taken out; runners, ingest and nightly share it.

Out of a text by name, by what announces it, and by its own look; out of JSON values at any depth, by the
names under which they stand. RE2 finds the places and a cursor that never goes back takes the values out, so
the time grows with the length of the text and no faster. A name may have 128 letters and a quoted value 4,096.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import re2

from warehouse.errors import InvalidInput
from warehouse.secrets.shapes import (
    COLOUR,
    REMOVED,
    Secrecy,
    is_drawn,
    is_none,
    is_remark,
    is_variable,
    looks_random,
    may_be_written,
    scrub_shapes,
    secrecy,
)

# --- Words behind which a credential follows without a sign: ``wandb login …``, "password is …". A judge tells
# by the pattern's first group, and by the value behind it, whether that is one.


def _always(_: str, value: str) -> bool:
    return bool(value)


def _unlike_a_word(_: str, value: str) -> bool:
    return not value.startswith("-") and looks_random(value)


def _long_and_unlike_a_word(_: str, value: str) -> bool:
    part = value.partition("/")[0]
    return len(part) > 11 and looks_random(part)


def _no_predicate(_: str, value: str) -> bool:
    return not is_remark(value)


def _no_number(_: str, value: str) -> bool:
    """Not those of a container's user and group, nor the address of curl's or a load generator's
    ``-u``.
    """
    return bool(value) and not value.isdigit() and not value.startswith("//")


def _of_name(name: str, value: str) -> bool:
    sure = secrecy(name)
    return bool(value) if sure == "certain" else sure is not None and looks_random(value)


def _of_name_above(name: str, value: str) -> bool:
    """Of what stands on the next line: another name of a nested value is none."""
    return secrecy(name) is not None and ":" not in value and _unlike_a_word(name, value)


def _of_variable(name: str, value: str) -> bool:
    return bool(value) and not may_be_written(name)


#: Tools that take a credential as the word behind ``login``.
_TOOLS = (
    "wandb|vault|hf|huggingface-cli|comet|ngc|gh|glab|npm|modal|databricks|kaggle|clearml|mlflow"
    "|neptune|replicate|runpod|runpodctl|together|az|docker|podman|helm|oras|argocd|redis-cli"
)
_PASSWORD = "password|passphrase|passcode|passwd|pwd"
_OTHER = "secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|credentials?"

#: Each pattern ends where the value begins.
_ANNOUNCEMENTS: tuple[tuple[Any, Callable[[str, str], bool]], ...] = tuple(
    (re2.compile(pattern), judge)
    for pattern, judge in (
        (rf"(?i)\b({_PASSWORD})s?\s+(?:is|was|are|equals)\s*:?\s+", _no_predicate),
        (rf"(?i)\b({_OTHER})s?\s+(?:is|was|are|equals)\s*:?\s+", _unlike_a_word),
        (rf"(?i)\b({_PASSWORD}|{_OTHER})\s+", _unlike_a_word),
        (
            rf"(?i)\b({_TOOLS})(?:[ \t]+auth|[ \t]+registry)?[ \t]+login[ \t]+"
            r"(?:--?[\w\-]+(?:=[^\s]*)?[ \t]+)*",
            _unlike_a_word,
        ),
        (rf"(?i)\b({_TOOLS})\.login\(\s{{0,8}}(?:(?:key|token|api_key)\s?=\s?)?", _unlike_a_word),
        (r"(?i)\b(api[ _-]?key|token|password) (?:provided|given|used|received)\s?:\s+", _unlike_a_word),
        (rf"(?i)\b({_PASSWORD})s?\s+(?:(?:for|of)\s+[^\s:]{{1,64}}|\([^()\n]{{1,64}}\))\s?:\s+", _no_predicate),
        (r"\b(auth)\s?=\s?\(\s{0,8}\\*[\"'][^\"'\\]{0,64}\\*[\"']\s{0,8},\s{0,8}", _always),
        (
            r"\b(?:getenv|putenv|setenv|setdefault|get)\(\s{0,8}\\*[\"']([A-Za-z_]\w*)\\*[\"']\s{0,8},\s{0,8}",
            _of_name,
        ),
        (r"\b(sshpass|mysql|mysqldump|docker login|podman login|az login)\b[^\n]{0,80}?\s-p\s*", _always),
        (r"\b(redis-cli)\b[^\n]{0,80}?\s-a\s+", _always),
        (r"(?:^|\s)(-[uU]|--user|--proxy-user)[\s=]+[\"']?[^\s:\"']{1,64}:", _no_number),
        (r"\b(curl|wget)\b[^\n]{0,200}?\s-b\s*[\"']?[\w.\-]{1,64}=", _always),
        (r"\b(ldap[a-z]{3,10})\b[^\n]{0,200}?\s-w\s*", _always),
        (r"\b(?:set|with|use)_?([A-Za-z]\w{0,63})\(\s{0,8}\\*[\"']", _of_name),
        (r"([A-Za-z][\w.\-]{0,127})\\*[\"']?\s?[:=][ \t]*(?:\r?\n|\\+n)+\s{0,64}", _of_name_above),
        (r"(?i)/(token|api[_-]?key|secret|password|hook)s?/+", _long_and_unlike_a_word),
        (r"(?i)\b(?:setenv|ENV|setx?)\s+(?:[-/][a-zA-Z]{1,4}\s+){0,3}([A-Za-z_]\w*)\s+", _of_name),
        (r"(?:^|\s)(?:-e|--env)[\s=]+[\"']?([A-Z_][A-Z0-9_]*)=", _of_variable),
        (
            r"(?i)\b(?:name|key|variable)\\*[\"']?\s{0,8}[:=]\s{0,8}\\*[\"']?([a-z_][\w.\-]{0,127})"
            r"\\*[\"']?(?:[\s,;{}\-]|\\+[nrt]){1,40}\\*[\"']?value\\*[\"']?\s{0,8}[:=]\s{0,8}",
            _of_name,
        ),
        (r"<([A-Za-z_][\w.\-]*)>", _of_name),
        (r"(?i)\b(bearer)\s+", _unlike_a_word),
        (r"(?i)\b(basic)\s+", _unlike_a_word),
        (
            r"(?i)(?:[?&;]|%3F|%26)(?:amp;)?(key|sig|signature|auth|code|hmac|x-amz-signature"
            r"|x-amz-security-token|x-amz-credential|x-goog-signature|x-goog-credential)(?:=|%3D)",
            _always,
        ),
    )
)  # fmt: skip


# --- Texts.


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
#: Between two texts of a list, and no name of a dictionary behind.
_NEXT = re.compile(r"\\*[\"']\s{0,8},\s{0,8}(\\*[\"'])(?![\w.\-]{1,128}\\*[\"']\s{0,8}[:=])")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{0,9})?(?:ms|s)?\.?")
_LONG_WORD, _SPACE = re2.compile(r"[A-Za-z0-9]{20,}"), re.compile(r"\s")
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


def _without_drawn(match: Any) -> str:
    return REMOVED if is_drawn(match[0]) else str(match[0])


def _without_user(match: Any) -> str:
    known = match[2] in ("git", REMOVED)
    return str(match[0]) if known else f"{match[1]}{REMOVED}{match[3]}"


def _without(text: str, spans: Iterator[_Span]) -> str:
    parts, at = [], 0
    for start, end in spans:
        if start >= at:
            parts += [text[at:start], REMOVED]
            at = end
    return "".join((*parts, text[at:])) if parts else text


def _armoured(text: str) -> Iterator[_Span]:
    """Yield the spans of the bodies of private keys; of one that was cut off, all that looks like
    it.
    """
    ends = True
    for armour in _ARMOUR.finditer(text):
        start = armour.end()
        if text.startswith(REMOVED, start):
            continue
        end = text.find("-----END", start) if ends else -1
        ends = end >= 0
        body = _BODY.match(text, start)
        yield start, end if ends else body.end() if body else start


def _named(text: str) -> Iterator[_Span]:
    at = 0
    for match in _NAMED.finditer(text):
        name, separator = match[1], match[2]
        if match.start(1) < at:
            continue
        sure = secrecy(_whole_name(text, match.start(1), name))
        if sure is None:
            continue
        ends = _TO_END if name.lower().endswith(("cookie", "cookies", "authorization")) else _BARE
        ends = _BARE_IN_PERCENT if "%" in separator else ends
        span = _value(text, match.end(), ends)
        # ``time to first token: 0.21`` and ``token: 512`` tell how many tokens.
        counts = name.islower() and name.endswith("token")
        if counts and _NUMBER.fullmatch(text[span[0] : span[1]]):
            continue
        # ``token: expired`` may stand in a sentence, ``token=…`` and ``HF_TOKEN: …`` may not.
        prose = separator.strip() == ":" and separator != ":" and name.isalpha()
        if _is_secret(text, span, sure, prose):
            span = _whole(text, span, ends)
            yield span
            at = span[1]
        if "[" in text[match.end() : span[0]]:
            # The other values of a printed list whose first ended here: ``['key', 'key']``.
            end: int | None = span[1]
            while end is not None and (opening := _NEXT.match(text, end)):
                end = _closing(text, opening.end(), opening[1])
                if end is not None and not is_none(text[opening.end() : end]):
                    yield opening.end(), end
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


def _value(text: str, at: int, ends: re.Pattern[str] = _BARE) -> _Span:
    """Return the span of the value that begins here, without its quotes; ``ends``: how far a value
    without quotes goes.
    """
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
    nothing.
    """
    at, limit = start, min(len(text), start + 4096)
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
    return quoted or not prose or not is_remark(value)


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
    places = [
        (match.end(), match[1] or "", judge)
        for pattern, judge in _ANNOUNCEMENTS
        for match in pattern.finditer(text)
    ]
    end = 0
    for at, name, judge in sorted(places, key=itemgetter(0)):
        if at < end:
            continue
        span = _value(text, at)
        value = text[span[0] : span[1]]
        if not is_none(value) and not value.startswith(REMOVED) and judge(name, value):
            span = _whole(text, span)
            yield span
            end = span[1]


# --- JSON values.


#: No record and no configuration is nested so deep.
_DEEPEST = 100
#: Names of what holds environment variables only, and of what may hold them beside other things.
_VARIABLES = frozenset(
    {"env", "envs", "environ", "env_vars", "envvars", "variables", "environment_variables"}
)


def scrub(value: Any) -> Any:
    """Return the same value without credentials; dictionaries and lists are copied, never changed.

    Of environment variables only those stay that are known to change what is measured. Raises
    InvalidInput for a value that is nested absurdly deep.
    """
    return _scrub(value, "", 0)


def _scrub(value: Any, holder: str, depth: int) -> Any:
    if isinstance(value, str):
        # ``NAME=value``, from a list of environment variables.
        name, equals, _ = value.partition("=")
        if equals and holder in _VARIABLES and is_variable(name) and not may_be_written(name):
            return f"{name}={REMOVED}"
        return scrub_text(value)
    if depth > _DEEPEST:
        raise InvalidInput(
            f"It is nested deeper than {_DEEPEST} levels: it is no record and no report of a run."
        )
    if isinstance(value, Mapping):
        return _scrub_dict(value, holder, depth)
    if isinstance(value, list | tuple):
        scrubbed = _scrub_list(list(value), holder, depth)
        return tuple(scrubbed) if isinstance(value, tuple) else scrubbed
    return value


def _scrub_dict(value: Mapping[Any, Any], holder: str, depth: int) -> dict[Any, Any]:
    names = (value.get(key) for key in ("name", "key", "variable"))
    named = next((name for name in names if isinstance(name, str)), None)
    scrubbed = {}
    for key, member in value.items():
        name = named if named is not None and key == "value" else str(key)
        # An environment variable that may not be written down.
        mixed = holder == "environment" and "_" in name.strip("_")
        unlisted = (
            (holder in _VARIABLES or mixed) and is_variable(name) and not may_be_written(name)
        )
        stated = isinstance(member, str | int | float) and not isinstance(member, bool)
        if _is_secret_member(name, member) or (unlisted and stated and member != ""):
            member = REMOVED
        else:
            member = _scrub(member, name.lower(), depth + 1)
        scrubbed[scrub_text(key) if isinstance(key, str) else key] = member
    return scrubbed


def _is_secret_member(name: str, member: Any) -> bool:
    sure = secrecy(name)
    if sure is None or member is None or isinstance(member, bool):
        return False
    if isinstance(member, int | float):
        # A number under a token's name counts tokens.
        return sure == "certain" and not name.lower().endswith("token")
    if isinstance(member, str):
        return not is_none(member) and (sure == "certain" or looks_random(member))
    return sure == "certain" and bool(member)


def _scrub_list(value: list[Any], holder: str, depth: int) -> list[Any]:
    scrubbed = [_scrub(member, holder, depth + 1) for member in value]
    in_key = False
    for place, member in enumerate(value):
        if not isinstance(member, str):
            continue
        # A private key in a list in which each of its lines is a member.
        of_key = " " not in member.strip() or member.startswith(("Proc-Type", "DEK-Info"))
        in_key = in_key and "-----END" not in member and of_key
        if in_key or (place and _follows(value, place)):
            scrubbed[place] = REMOVED
        if "-----BEGIN" in member and "PRIVATE KEY" in member:
            in_key = "-----END" not in member
    return scrubbed


def _follows(words: list[Any], place: int) -> bool:
    """Return whether a word is a credential because of the words of its command line before it."""
    said = [word for word in words[max(0, place - 4) : place] if isinstance(word, str)]
    if not said or len(said[-1]) > 256:
        return False
    before, word = said[-1], words[place]
    if len(words) == 2 and is_variable(before) and "_" in before:
        return _is_secret_member(before, word)  # a pair of name and value
    several = any(one.startswith("-") and one.lower().endswith("key") for one in said)
    if not before.startswith("-") and before not in ("login", "is") and not several:
        return False
    line = " ".join((*(one[:256] for one in said), word))
    return scrub_text(line).endswith(REMOVED) and not scrub_text(word).endswith(REMOVED)
