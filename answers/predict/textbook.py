"""What two textbook models say where nothing is measured."""

from dataclasses import dataclass

from analysis.prediction.textbook import Textbook, both
from answers.predict.values import Table

NOT_MEASURED = "Textbook models: no measurement stands behind these figures."
END_TO_END, ONE_STREAM = "end to end", "one stream"


@dataclass(frozen=True)
class Parameters:
    """What both models are told. ``rate`` and ``decode_share`` are 0-1; ``text``: a key of
    ``DECODE_CAPS``; ``draft_cost``: of a drafted token over a step of the target."""

    rate: float
    k: int
    text: str
    decode_share: float
    draft_cost: float

    def found(self, rate: float | None = None) -> Textbook:
        """Return what both models say; ``rate``: another acceptance rate. Raises InvalidInput for a
        rate outside 0-1."""
        chosen = self.rate if rate is None else rate
        return both(chosen, self.k, self.text, self.decode_share, self.draft_cost)


def headline(given: Parameters) -> str:
    """Say in a sentence which speedup both models give."""
    found = given.found()
    return (
        f"At an acceptance rate of {given.rate:.0%} textbook models say: "
        f"{found.end_to_end_gain:.2f} times as fast {END_TO_END}, "
        f"{found.single_stream_speedup:.2f} times as fast {ONE_STREAM}."
    )


def table(given: Parameters) -> Table:
    """Return a row per model: its speedup and its parameters."""
    found, drafts = given.found(), f"K = {given.k}, draft cost {given.draft_cost:g}"
    shares = f"decode share {given.decode_share:g}, cap {found.model.cap:g}"
    return Table(
        ("textbook model", "speedup", "parameters"),
        (
            (f"{END_TO_END}, decoding alone faster", f"{found.end_to_end_gain:.2f}",
             f"{drafts}, {shares}"),
            (f"{ONE_STREAM}, (1 + μ) / ((1 + μ)c + 1)", f"{found.single_stream_speedup:.2f}",
             drafts),
        ),
    )  # fmt: skip
