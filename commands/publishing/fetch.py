"""Whether a published set holds, a folder as it is or an address, fetched file by file."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx

from answers.publication import contradictions, recompute
from commands.publishing import attestation
from commands.publishing.attestation import PUBLIC_KEY, STATEMENT, attested
from commands.publishing.write import CLAIMS, DATA, RESULTS, as_written
from warehouse.errors import InvalidInput
from warehouse.store import Reader

# --- Whether a published set holds: signature, hashes, numbers from requests, claims from numbers.


@dataclass(frozen=True)
class SetCheck:
    """A sentence for each thing that does not hold, and for each kind of thing that does."""

    wrong: tuple[str, ...]
    held: tuple[str, ...]


def check(folder: Path, key: Path | None) -> SetCheck:
    """Check the set in ``folder``. ``key``: the publisher's, else the one that lies in the set.

    Raises InvalidInput where the signature does not hold.
    """
    said = attestation.attested(folder, key)
    altered = attestation.altered(folder, said)
    if altered:
        # What was altered is not worth an answer.
        return SetCheck(tuple(altered), ())
    with Reader(folder / DATA, everything=True) as reader:
        again = recompute(reader)
    with Reader(folder / DATA) as reader:
        same = as_written(reader, folder / RESULTS)
        claims = contradictions(reader, (folder / CLAIMS).read_text(encoding="utf-8"))
    by = f"{said.said.get('published_by')}, who signed with the key {said.key}"
    whose = "" if key else " (which lies in the set: whose it is, only its owner can tell you)"
    without = f"; {again.without:,} cells came without requests" if again.without else ""
    held = [
        f"Signature: by {by}{whose}.",
        f"Hashes: {len(said.files):,} files are what was signed.",
        f"Numbers: {again.numbers:,} follow from the requests{without}.",
        f"Claims: {CLAIMS} and {RESULTS} follow from the numbers.",
    ]
    if (folder / attestation.SIGSTORE).exists():
        # Only sigstore's own tool checks it.
        held.append(
            f"Not checked here: {attestation.SIGSTORE}, see sigstore verify identity --help."
        )
    other = () if same else (f"{RESULTS} is not what {DATA} comes to.",)
    return SetCheck((*again.wrong, *other, *claims), tuple(held))


# --- A published set on this machine: a folder as it is, or an address, fetched file by file.


_PATIENCE_S = 60.0
#: A statement of so many bytes names tens of thousands of files.
_LARGEST_STATEMENT = 16 * 2**20
_MOST_BYTES = 20 * 2**30


@contextmanager
def fetched(place: str) -> Iterator[Path]:
    """Yield the folder of a set; of an address a copy, which is removed at the end.

    Only what the statement names is fetched, and no more of it than it says. Raises InvalidInput.
    """
    if not place.startswith(("https://", "http://")):
        if not Path(place).is_dir():
            raise InvalidInput(f"{place} is no folder; name one that draftboard publish wrote.")
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="draftboard-verify-") as folder:
        _fetch_set(place.rstrip("/"), Path(folder))
        yield Path(folder)


def _fetch_set(address: str, folder: Path) -> None:
    with httpx.Client(timeout=_PATIENCE_S, follow_redirects=True) as client:
        for name in (STATEMENT, PUBLIC_KEY):
            _fetch(client, f"{address}/{name}", folder / name, _LARGEST_STATEMENT)
        # With its own key: whether that is the right one is asked when all of it is there.
        files = attested(folder, None).files
        if sum(size for _, size in files.values()) > _MOST_BYTES:
            raise InvalidInput(f"{address} is larger than 20 GB; fetch it, then verify the folder.")
        for name, (_, size) in files.items():
            _fetch(client, f"{address}/{quote(name)}", folder / name, size)


def _fetch(client: httpx.Client, address: str, path: Path, most: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with client.stream("GET", address) as answer, path.open("wb") as file:
            if not answer.is_success:
                raise InvalidInput(
                    f"{address} cannot be fetched: the server answered {answer.status_code}."
                )
            for part in answer.iter_bytes():
                most -= len(part)
                if most < 0:
                    raise InvalidInput(
                        f"{address} is larger than its statement says; it was altered."
                    )
                file.write(part)
    except httpx.HTTPError as error:
        raise InvalidInput(f"{address} cannot be fetched ({type(error).__name__}).") from None
