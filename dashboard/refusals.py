"""What is said where something does not work: one sentence, and no folder of the server in it."""

import re

#: A path from the root, of two parts or more: not a fraction, nor the path of an address.
_PATH = re.compile(r"(?<![\w.:/~-])(?:~|/[\w.@+~-]+)(?:/[\w.@+~-]+)+/?")


def sentence(error: Exception) -> str:
    """Return what an error says, of each path only the last part: the others tell where it lies."""
    return _PATH.sub(lambda found: f"…/{found[0].rstrip('/').rpartition('/')[2]}", str(error))
