"""Published tables in the warehouse: kept whole, once, apart from every generation."""

from pathlib import Path

from warehouse.beside import is_published_table, keep_table, published_tables, tables_version
from warehouse.storage.files import PUBLISHED


def test_a_table_is_kept_once_and_a_newer_one_of_its_name_replaces_it(tmp_path: Path) -> None:
    assert tables_version(tmp_path) == ""

    assert keep_table(tmp_path, "published-a.yaml", "a: 1")
    first = tables_version(tmp_path)
    assert not keep_table(tmp_path, "published-a.yaml", "a: 1")
    assert keep_table(tmp_path, "published-a.yaml", "a: 2")

    assert tables_version(tmp_path) != first
    assert [(one.name, one.text) for one in published_tables(tmp_path)] == [
        ("published-a.yaml", "a: 2")
    ]


def test_a_name_never_leads_out_of_its_folder(tmp_path: Path) -> None:
    keep_table(tmp_path, "../../published-evil.yaml", "a: 1")

    (kept,) = (tmp_path / PUBLISHED).iterdir()
    assert kept.parent == tmp_path / PUBLISHED


def test_only_files_that_say_so_are_tables(tmp_path: Path) -> None:
    assert is_published_table(tmp_path / "published-study.yaml")
    assert not is_published_table(tmp_path / "study.yaml")
    assert not is_published_table(tmp_path / "published-study.json")
