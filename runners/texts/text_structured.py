"""Structured text from a seed: JSON records, log lines, YAML manifests and XML feeds.

A document's number is its seed, so document 17 is the same text everywhere. Fields come and go
and names come back within their document, or the draft would guess nearly everything.
"""

import json
from collections.abc import Callable, Iterator
from random import Random

#: 1.5 MB of characters to train on and 125 kB to ask about.
_COUNT = 1200
_NAMES = ("alpha", "birch", "cedar", "delta", "ember", "falcon", "garnet", "harbor", "indigo",
          "juniper", "kestrel", "lumen", "maple", "nimbus", "onyx", "pioneer", "quartz", "raven",
          "saffron", "tundra", "umber", "vertex", "willow", "xenon", "yarrow", "zephyr")  # fmt: skip
_PARTS = ("api", "auth", "billing", "cache", "catalog", "events", "gateway", "ingest", "ledger",
          "mailer", "orders", "payments", "profile", "queue", "report", "search", "worker")  # fmt: skip
_CITIES = ("Athens", "Bergen", "Cairo", "Dakar", "Essen", "Fukuoka", "Geneva", "Hanoi", "Izmir",
           "Jakarta", "Kyoto", "Lima", "Madrid", "Nairobi", "Oslo", "Porto", "Quito", "Riga")  # fmt: skip
_STATES = ("active", "pending", "closed", "suspended")
_PATHS = ("items", "users", "orders", "health", "login", "search", "carts", "invoices")


def documents(wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each document that is wanted. There are 1,200 of 1.4 kB each, in
    four forms by turns."""
    for number in range(_COUNT):
        name = f"structured {number:04d}"
        if wanted(name):
            yield name, _FORMS[number % len(_FORMS)](Random(name))


def _service(rng: Random) -> str:
    return f"{rng.choice(_NAMES)}-{rng.choice(_PARTS)}"


def _day(rng: Random) -> str:
    return f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _order(rng: Random, number: int, customers: list[str]) -> dict[str, object]:
    lines = [
        {"sku": f"{rng.choice(_NAMES)[:3].upper()}-{rng.randint(100, 999)}",
         "quantity": rng.randint(1, 9), "unit_price": rng.randint(100, 9999) / 100}
        for _ in range(rng.randint(1, 3))
    ]  # fmt: skip
    order: dict[str, object] = {
        "id": number,
        "status": rng.choice(_STATES),
        "customer": {"name": rng.choice(customers), "city": rng.choice(_CITIES)},
        "created": f"{_day(rng)}T{_clock(rng.randrange(86400))}Z",
        "lines": lines,
    }
    if rng.random() < 0.5:
        order["reference"] = f"{rng.getrandbits(32):08x}"
    return order | {"paid": rng.random() < 0.7}


def _json(rng: Random) -> str:
    first, customers = rng.randint(1000, 9000), [name.title() for name in rng.sample(_NAMES, 3)]
    orders = [_order(rng, first + i, customers) for i in range(rng.randint(2, 6))]
    body = {"service": _service(rng), "page": rng.randint(1, 40), "count": len(orders),
            "orders": orders}  # fmt: skip
    return json.dumps(body, indent=2) + "\n"


def _log(rng: Random) -> str:
    day, second = _day(rng), rng.randrange(80000)
    services, users = [_service(rng) for _ in range(3)], rng.sample(_NAMES, 3)
    lines = []
    for _ in range(rng.randint(12, 30)):
        second += rng.randint(0, 7)
        level = rng.choices(("INFO", "WARN", "ERROR"), (16, 3, 1))[0]
        path, code = rng.choice(_PATHS), {"INFO": 200, "WARN": 404, "ERROR": 500}[level]
        method = rng.choice(("GET", "GET", "POST", "PUT"))
        user = f" user={rng.choice(users)}" if rng.random() < 0.6 else ""
        lines.append(
            f"{day}T{_clock(second)}Z {level} {rng.choice(services)} {method} "
            f"/v1/{path}/{rng.randint(1, 999)}{user} {code} {rng.randint(1, 4000) / 10}ms"
        )
    return "\n".join(lines) + "\n"


def _yaml(rng: Random) -> str:
    service, port = _service(rng), rng.choice((8000, 8080, 9000, 9090))
    others = rng.sample(_NAMES, 3)
    variables = "".join(
        f"            - name: {name.upper()}_{rng.choice(('URL', 'TOKEN', 'LEVEL', 'SIZE'))}\n"
        f"              value: {json.dumps(rng.choice(others))}\n"
        for name in rng.sample((*_PARTS, *others), rng.randint(1, 5))
    )
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n"
        f"  name: {service}\n  namespace: {rng.choice(others)}\n  labels:\n    app: {service}\n"
        f"spec:\n  replicas: {rng.randint(1, 9)}\n  selector:\n    matchLabels:\n"
        f"      app: {service}\n  template:\n    metadata:\n      labels:\n        app: {service}\n"
        f"    spec:\n      containers:\n        - name: {service}\n"
        f"          image: registry.example.com/{service}:{rng.randint(1, 9)}.{rng.randint(0, 20)}\n"
        f"          ports:\n            - containerPort: {port}\n          env:\n{variables}"
        f"          resources:\n            limits:\n              cpu: {rng.randint(1, 8)}00m\n"
        f"              memory: {rng.choice((128, 256, 512, 1024))}Mi\n"
    )


def _xml(rng: Random) -> str:
    makers, entries = [name.title() for name in rng.sample(_NAMES, 3)], []
    for _ in range(rng.randint(3, 8)):
        words = " ".join(rng.sample(_NAMES, 2))
        note = f"    <note>{words}</note>\n" if rng.random() < 0.5 else ""
        entries.append(
            f'  <item id="{rng.randint(1, 9999):04d}" state="{rng.choice(_STATES)}">\n'
            f"    <name>{rng.choice(_NAMES)}</name>\n    <maker>{rng.choice(makers)}</maker>\n{note}"
            f"    <origin>{rng.choice(_CITIES)}</origin>\n    <updated>{_day(rng)}</updated>\n"
            f'    <price currency="EUR">{rng.randint(100, 9999) / 100:.2f}</price>\n  </item>\n'
        )
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<catalog name="{_service(rng)}">\n'
    return head + "".join(entries) + "</catalog>\n"


_FORMS: tuple[Callable[[Random], str], ...] = (_json, _log, _yaml, _xml)
