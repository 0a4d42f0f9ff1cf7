"""Who published what: an in-toto statement in a DSSE envelope, signed with an ed25519 key.

https://in-toto.io/Statement/v1 and https://github.com/secure-systems-lab/dsse; any reader of these
checks the signature and hashes without this software.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from warehouse.errors import InvalidInput
from warehouse.storage.files import sha256_of

STATEMENT, PUBLIC_KEY = "attestation.json", "attestation.pub"
#: Where sigstore's own tool puts a signature of the statement, which holds without being in it.
SIGSTORE = f"{STATEMENT}.sigstore.json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:draftboard:result-set:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_MAKE_ONE = "openssl genpkey -algorithm ed25519 -out FILE"


@dataclass(frozen=True)
class Attested:
    """A statement whose signature holds. ``files``: name -> (sha256, bytes); ``predicate``: who measured
    what with which software; ``key``: fingerprint of the key that signed."""

    files: Mapping[str, tuple[str, int]]
    predicate: Mapping[str, Any]
    key: str


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read a key to sign with (PEM, unencrypted). Raises InvalidInput."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InvalidInput(
            f"The key {path} cannot be read ({error.strerror}); make one: {_MAKE_ONE}"
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(f"{path} is no unencrypted ed25519 key in PEM; make one: {_MAKE_ONE}")
    return key


def public_key(path: Path) -> Ed25519PublicKey:
    """Read a key to check with (PEM). Raises InvalidInput."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"{path} is no public ed25519 key in PEM; ask the publisher for theirs.")
    return key


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of the key's 32 bytes, in hex."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def sign(folder: Path, said: Mapping[str, Any], key: Ed25519PrivateKey) -> str:
    """Write the statement on every file of ``folder`` and the public key. Return its fingerprint."""
    subjects = [
        {"name": name, "digest": {"sha256": sha256_of(path)},
         "annotations": {"bytes": path.stat().st_size}}
        for name, path in files_of(folder)
    ]  # fmt: skip
    statement = {
        "_type": STATEMENT_TYPE, "subject": subjects,
        "predicateType": PREDICATE_TYPE, "predicate": dict(said),
    }  # fmt: skip
    payload = json.dumps(statement, sort_keys=True).encode()
    public = key.public_key()
    signature = {"keyid": fingerprint(public), "sig": _coded(key.sign(_signed(payload)))}
    envelope = {
        "payloadType": PAYLOAD_TYPE, "payload": _coded(payload), "signatures": [signature]
    }  # fmt: skip
    (folder / STATEMENT).write_text(json.dumps(envelope, indent=1) + "\n", encoding="utf-8")
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / PUBLIC_KEY).write_bytes(pem)
    return signature["keyid"]


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and path of every file but the statement, its key and sigstore's bundle, in order of name."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in (STATEMENT, PUBLIC_KEY, SIGSTORE):
            yield name, path


def attested(folder: Path, trusted: Path | None) -> Attested:
    """Read the statement of ``folder`` and check its signature: with the key in ``trusted``, else
    with the one that lies beside it. Raises InvalidInput where it does not hold."""
    key = public_key(trusted or folder / PUBLIC_KEY)
    try:
        envelope = json.loads((folder / STATEMENT).read_bytes())
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"]) for one in envelope["signatures"]]
        of_type = envelope["payloadType"] == PAYLOAD_TYPE
        if not (of_type and any(_holds(key, one, payload) for one in signatures)):
            raise InvalidInput(
                f"The signature of {STATEMENT} is not by this key ({fingerprint(key)}): the set was "
                "altered, or somebody else published it."
            )
        statement = json.loads(payload)
        if (statement["_type"], statement["predicateType"]) != (STATEMENT_TYPE, PREDICATE_TYPE):
            raise InvalidInput(f"{STATEMENT} attests something else than a result set.")
        files = {
            _inside(one["name"]): (one["digest"]["sha256"], int(one["annotations"]["bytes"]))
            for one in statement["subject"]
        }
        return Attested(files, statement["predicate"], fingerprint(key))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{folder / STATEMENT} is no attestation of a result set ({error}); verify wants the "
            "folder that draftboard publish wrote."
        ) from None


def _inside(name: str) -> str:
    """Return the name of a file inside the set. Raises InvalidInput for any other."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or "\\" in name or ".." in parts or ":" in name:
        raise InvalidInput(f"{STATEMENT} names {name!r}, which is no file of the set.")
    return name


def altered(folder: Path, said: Attested) -> list[str]:
    """Return a sentence for each file that is missing, is not what was signed, or was not signed."""
    there = dict(files_of(folder))
    lost = [f"{name} is missing." for name in said.files if name not in there]
    other = [
        f"{name} is not what was signed: its SHA-256 is another."
        for name, (digest, _) in said.files.items()
        if name in there and sha256_of(there[name]) != digest
    ]
    return [*lost, *other, *(f"{n} was not signed." for n in there if n not in said.files)]


def _holds(key: Ed25519PublicKey, signature: bytes, payload: bytes) -> bool:
    try:
        key.verify(signature, _signed(payload))
    except InvalidSignature:
        return False
    return True


def _signed(payload: bytes) -> bytes:
    """Return what a DSSE signature is made of (PAE)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()
