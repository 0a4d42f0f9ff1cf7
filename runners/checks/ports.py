"""Ports and proxies: the server listens on this machine, and its clients must reach it there."""

import socket
import urllib.request
from collections.abc import Iterator, Mapping

from runners.checks.finding import Finding, Situation

CHECK = "ports"
_HOST = "127.0.0.1"
#: variables by which vLLM is told ports of its own, beside that of its HTTP server
_OWN = ("VLLM_PORT", "MASTER_PORT")


def check(situation: Situation) -> Iterator[Finding]:
    """Check for a free port for the server, the ports that the study names, and that no proxy
    stands in between."""
    try:
        _bind(0)
    except OSError as error:
        yield Finding(
            CHECK,
            "blocker",
            f"No port can be opened on {_HOST}: {error.strerror}.",
            "Allow this user to listen on the loopback interface.",
        )
    else:
        yield Finding(CHECK, "ok", f"A free port on {_HOST} can be opened for the server.")
    yield from _named(situation.env)
    yield from _proxy()


def _named(env: Mapping[str, str]) -> Iterator[Finding]:
    for name in _OWN:
        said = env.get(name, "")
        if not said.isdigit():
            continue
        try:
            _bind(int(said))
        except (OSError, OverflowError):
            yield Finding(
                CHECK,
                "blocker",
                f"{name} is {said}, and that port is taken.",
                f"Unset {name}, so that vLLM chooses one, or name a free one.",
            )


def _proxy() -> Iterator[Finding]:
    """Check that no proxy is set for this machine: GuideLLM obeys proxy variables, and its requests
    would leave the machine."""
    proxies = urllib.request.getproxies_environment()
    through = next((proxies[kind] for kind in ("http", "all") if proxies.get(kind)), None)
    if through is not None and not urllib.request.proxy_bypass(_HOST):
        yield Finding(
            CHECK,
            "warning",
            f"A proxy is set for http, and {_HOST} is not exempt: the load may go through it.",
            f"Set no_proxy={_HOST},localhost.",
        )


def _bind(port: int) -> None:
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((_HOST, port))
