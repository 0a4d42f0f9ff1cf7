"""Any other server with OpenAI's routes: its models are all that is known of it.

It is measured with ``--target-url`` alone: nobody knows how it is started, and what it drafts is the
study's word.
"""

from runners.serving.agreement import Said, models


def said(url: str, metrics: str) -> Said:
    """Return the models that the server lists; the rest stays unknown, whatever ``metrics`` are."""
    return Said(models=models(url))
