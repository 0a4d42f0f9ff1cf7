"""What pages that draw the requests of a cell share."""

DISTRIBUTIONS = ("ttft", "itl", "request_latency")


def bracketed(note: str) -> str:
    """A badge as the end of a title; nothing for nothing."""
    return f"  [{note}]" if note else ""
