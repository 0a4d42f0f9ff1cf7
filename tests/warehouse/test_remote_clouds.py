"""A warehouse in the stores of other clouds: Google's (a fake of its interface) and Azure's (Azurite)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.warehouse.azurite import ACCOUNT, AZURITE, KEY, azurite
from tests.warehouse.fake_google import google
from warehouse import queries
from warehouse.errors import WarehouseUnreachable
from warehouse.filters import Filters
from warehouse.maintenance import check
from warehouse.storage.cache import warehouse_path
from warehouse.storage.current import pull
from warehouse.storage.objects import ObjectStore, Unchanged
from warehouse.store import Reader, open_writer

_HERE = pytest.mark.skipif(AZURITE is None, reason="no Azurite here: npm install --global azurite")
At = Callable[[str], Path]


@pytest.fixture
def at_google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with google(tmp_path) as account:
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(account))
        yield "gs://team/results"


@pytest.fixture
def at_azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with azurite() as address:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", address)
        yield "az://team/results"


@pytest.fixture(
    params=["at_google", pytest.param("at_azure", marks=(_HERE, pytest.mark.slow))],
)
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def at(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> At:
    """``at("writer")``: be on that machine from now on; its copy of the warehouse."""

    def be(home: str) -> Path:
        monkeypatch.setenv("DRAFTBOARD_CACHE", str(tmp_path / home))
        return warehouse_path(url)

    return be


def test_an_object_is_replaced_by_whoever_knows_what_it_is_now(url: str) -> None:
    store = ObjectStore(url)
    store.require_conditions()
    assert store.entries(None) == []

    first = store.replace("CURRENT", b"1", None)
    assert first is not None
    assert store.replace("CURRENT", b"2", None) is None
    second = store.replace("CURRENT", b"2", first)
    assert store.replace("CURRENT", b"3", first) is None

    found = store.get("CURRENT")
    assert found is not None
    assert (found.content, found.tag) == (b"2", second)
    with pytest.raises(Unchanged):
        store.get("CURRENT", unless=second)


def test_two_machines_write_and_a_third_reads(at: At, make_source: Any, make_cell: Any) -> None:
    for home in ("writer", "other"):
        source = make_source(home)
        with open_writer(at(home)) as writer:
            writer.add(source, [make_cell(source, 0)])
            writer.commit()

    root = at("reader")
    pull(root)
    with Reader(root) as reader:
        cells = queries.cells(reader, Filters()).column("cell_id").to_pylist()
        rows = [queries.requests(reader, one, ["index"]).num_rows for one in cells]
    assert rows == [20, 20]
    assert check(root) == []


def test_a_container_without_an_account_is_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(WarehouseUnreachable, match="set AZURE_STORAGE_ACCOUNT_NAME"):
        ObjectStore("az://team/results")


def test_containers_of_two_accounts_are_two_warehouses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_CACHE", str(tmp_path))
    copies = []
    for account in ("ours", "theirs"):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", account)
        copies.append(warehouse_path("az://team/results"))
    assert copies[0] != copies[1]
