"""Azurite, the emulator of Azure's object store by its makers, where it is installed: ``npm install azurite``."""

import base64
import hashlib
import hmac
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from urllib.request import Request, urlopen

AZURITE = shutil.which("azurite-blob")
#: The account that Azurite has, and its key, as its documentation says them.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def azurite() -> Iterator[str]:
    """The address of Azurite's account, with an empty container ``team``."""
    words = [str(AZURITE), "--inMemoryPersistence", "--blobPort", "0", "--disableTelemetry"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = (re.search(r"listens on (http://\S+)", line) for line in server.stdout)
            address = f"{next(one for one in found if one)[1]}/{ACCOUNT}"
            _make_container(address, "team")
            yield address
        finally:
            server.kill()


def _make_container(address: str, name: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    said = "".join(f"{key}:{value}\n" for key, value in headers.items())
    text = "PUT" + "\n" * 12 + f"{said}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    mark = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers["Content-Length"] = "0"
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mark).decode()}"
    url = f"{address}/{name}?restype=container"
    urlopen(Request(url, None, headers, method="PUT")).close()  # noqa: S310
