"""How the server's sockets send."""

import asyncio
import socket

from dashboard.app import served


def test_each_part_of_an_answer_is_sent_at_once() -> None:
    # As Streamlit makes it: nothing is said of the protocol, and asyncio leaves such sockets alone.
    with socket.socket(family=socket.AF_INET) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        async def serve() -> None:
            async with served(None):
                pass

        asyncio.run(serve())
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as line:
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
