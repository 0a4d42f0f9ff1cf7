"""Arms whose K is not fixed: what their measurement says beside the fixed K."""

from collections.abc import Iterator

import numpy as np

from analysis.choice.field import Candidate
from answers.decide.shown import Shown
from answers.decide.words import ADAPTIVE
from answers.wording import percent
from warehouse.loads import Load


def of_tables(shown: Shown) -> Iterator[str]:
    """Yield a sentence for each table of K that was measured: its gain beside that of the K which
    it takes at the same load, where that K was measured alone."""
    for place, one in enumerate(shown.judged.field.candidates):
        parts = list(_beside(shown, place, one)) if one.chooser == "table" else []
        if parts:
            yield f"{one.label}, measured as an arm of its own: {'; '.join(parts)}."


def _beside(shown: Shown, place: int, one: Candidate) -> Iterator[str]:
    for at, load in enumerate(shown.judged.loads):
        gain = shown.judged.expected[place, at]
        alone = _alone(shown, one, load)
        if np.isfinite(gain) and alone is not None:
            other = shown.judged.expected[alone, at]
            name = shown.judged.field.candidates[alone].label
            yield f"{percent(float(gain))} at {load.text}, {name} {percent(float(other))}"


def _alone(shown: Shown, table: Candidate, load: Load) -> int | None:
    """Return the place of the arm of the same method whose fixed K is the one that the table takes
    at a load."""
    if load.kind != "concurrency" or load.value is None:
        return None
    wanted = [k for start, _, k in table.table if start <= load.value][-1:]
    method = table.family.split(" (")[0]
    at = shown.judged.loads.index(load)
    for place, one in enumerate(shown.judged.field.candidates):
        same = [one.k] == wanted and one.family.split(" (")[0] == method
        if same and np.isfinite(shown.judged.expected[place, at]):
            return place
    return None


def of_adaptive(shown: Shown) -> Iterator[str]:
    """Say what to keep in mind of an arm that the decision takes and whose engine sets K."""
    taken = {place for place in shown.choice.server.at if place is not None}
    for place in sorted(taken):
        one = shown.judged.field.candidates[place]
        if one.chooser in ("adaptive", "match"):
            yield ADAPTIVE.format(arm=one.label)
