"""What cannot be decoded, and why, in words for whoever gave it."""

import msgspec

#: What decoding a JSON text may raise.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def why(error: Exception) -> str:
    """Return what is wrong with a text that one of UNREADABLE was raised for."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
