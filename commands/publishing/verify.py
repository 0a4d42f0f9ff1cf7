"""Whether a published set holds: signature, hashes, numbers from requests, claims from numbers."""

from dataclasses import dataclass
from pathlib import Path

from answers.publication.claims import contradictions, recompute
from commands.publishing.table import RESULTS, as_written
from commands.publishing.write import CLAIMS, DATA
from warehouse import attestation
from warehouse.store import Reader


@dataclass(frozen=True)
class Checked:
    """A sentence for each thing that does not hold, and for each kind of thing that does."""

    wrong: tuple[str, ...]
    held: tuple[str, ...]


def check(folder: Path, key: Path | None) -> Checked:
    """Check the set in ``folder``. ``key``: the publisher's, else the one that lies in the set.

    Raises InvalidInput where the signature does not hold.
    """
    said = attestation.attested(folder, key)
    altered = attestation.altered(folder, said)
    if altered:
        # What was altered is not worth an answer.
        return Checked(tuple(altered), ())
    with Reader(folder / DATA, everything=True) as reader:
        again = recompute(reader)
    with Reader(folder / DATA) as reader:
        same = as_written(reader, folder / RESULTS)
        claims = contradictions(reader, (folder / CLAIMS).read_text(encoding="utf-8"))
    by = f"{said.said.get('published_by')}, who signed with the key {said.key}"
    whose = "" if key else " (which lies in the set: whose it is, only its owner can tell you)"
    without = f"; {again.without:,} cells came without requests" if again.without else ""
    held = (
        f"Signature: by {by}{whose}.",
        f"Hashes: {len(said.files):,} files are what was signed.",
        f"Numbers: {again.numbers:,} follow from the requests{without}.",
        f"Claims: {CLAIMS} and {RESULTS} follow from the numbers.",
        *_unchecked(folder),
    )
    other = () if same else (f"{RESULTS} is not what {DATA} comes to.",)
    return Checked((*again.wrong, *other, *claims), held)


def _unchecked(folder: Path) -> tuple[str, ...]:
    """Return a sentence for the signature that only sigstore's own tool checks; none where none is."""
    if not (folder / attestation.SIGSTORE).exists():
        return ()
    return (f"Not checked here: {attestation.SIGSTORE}, see sigstore verify identity --help.",)
