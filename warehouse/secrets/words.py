"""What stands in a credential's place, and which values are none though their name says so."""

import re

REMOVED = "[removed]"

#: What people write where there is no credential, and a reference to a variable.
_NONE = re.compile(
    r"(?:none|null|nil|empty|true|false|undefined|unset|redacted|<?removed>?|\[removed\]|dummy"
    r"|[*x.\-]+|(?-i:\$\{?[A-Z_][A-Z0-9_]*\}?|\$\([^)]{1,200}\)|\{\{[^}]{1,200}\}\}))?",
    re.IGNORECASE,
)
#: What is said *of* a credential: "password is required", "token: expired".
_SAID_OF = frozenset(
    {
        "a", "an", "the", "not", "no", "in", "on", "of", "for", "to", "by", "from", "with", "and",
        "or", "is", "was", "are", "be", "been", "must", "should", "can", "may", "will", "required",
        "missing", "invalid", "incorrect", "wrong", "empty", "set", "unset", "expired", "needed",
        "too", "correct", "ok", "okay", "stored", "valid", "unknown", "unexpected", "found",
        "given", "used", "accepted", "rejected", "refused", "denied", "protected", "encrypted",
        "hidden", "generated", "limit", "count", "budget", "length", "type", "error", "mismatch",
        "failed", "available", "optional", "ignored", "present", "absent", "it", "this", "that",
        "now", "only", "rather", "authentication",
    }
)  # fmt: skip
#: Of a drawn word 62 % of the letters differ in kind from the one before; of names in capitals and
#: digits, such as Llama4Maverick17B128EInstruct, 35 %.
_DRAWN = 0.45
_LETTERS = re.compile(r"[A-Za-z]")
_MIXED = re.compile(r"[a-z][A-Z]|[A-Z]{2}.*[a-z]|[^\W\d_][!@#$%^&*+=~?]")


def is_none(value: str) -> bool:
    """Return whether a value is what people write where there is no credential."""
    return len(value) <= 256 and _NONE.fullmatch(value.strip()) is not None


def is_said_of(value: str) -> bool:
    """Return whether a word says something of a credential and is none, as in "password is
    wrong"."""
    return value.strip(".,:;!?()").lower() in _SAID_OF


def looks_random(value: str) -> bool:
    """Return whether nobody would write this as a word, a number or a path."""
    head = value[:256]
    if len(head) < 6 or head.startswith(("/", "./", "~")) or "://" in head:
        return False
    if not _LETTERS.search(head):
        return False
    return any(letter.isdigit() for letter in head) or _MIXED.search(head) is not None


def is_drawn(word: str) -> bool:
    """Return whether a generator has drawn a word, which nobody writes: of its neighbouring letters many
    differ in kind (small, capital, digit), and there are all three."""
    kinds = ["d" if c.isdigit() else "c" if c.isupper() else "s" for c in word[:256]]
    changes = sum(one != other for one, other in zip(kinds, kinds[1:], strict=False))
    return len(set(kinds)) == 3 and changes >= _DRAWN * len(kinds)
