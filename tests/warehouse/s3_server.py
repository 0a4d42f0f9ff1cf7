"""moto's server of S3 in a process of its own; it says its port, and ends with its input.

It answers one request at a time: so its look at a condition and the write that follows are one step, as
they are in a real store.
"""

import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app))
sys.stdout.write(f"{server.port}\n")
sys.stdout.flush()
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.readline()
