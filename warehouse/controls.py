"""Characters that do something where a text is shown, and show nothing: what is read would not be what
is stored, and a terminal would do what a name tells it to."""

import re

#: Those of a terminal; ends of lines; what turns the text around it, is seen by nobody or marks others.
_DOING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
CONTROL = re.compile(f"[\n{_DOING}]")
_BUT_LINES = re.compile(f"[{_DOING}]")


def on_one_line(text: str) -> str:
    """Return a text without them, nor an end of a line: a newline would forge one."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def for_terminal(text: str) -> str:
    """Return a text of several lines as a terminal may have it."""
    return _BUT_LINES.sub("\N{REPLACEMENT CHARACTER}", text)
