"""Published tables in the warehouse: kept whole, once, apart from every generation."""

from pathlib import Path

from warehouse import published


def test_a_table_is_kept_once_and_a_newer_one_of_its_name_replaces_it(tmp_path: Path) -> None:
    assert published.version(tmp_path) == ""

    assert published.keep(tmp_path, "published-a.yaml", "a: 1")
    first = published.version(tmp_path)
    assert not published.keep(tmp_path, "published-a.yaml", "a: 1")
    assert published.keep(tmp_path, "published-a.yaml", "a: 2")

    assert published.version(tmp_path) != first
    assert [(one.name, one.text) for one in published.kept(tmp_path)] == [
        ("published-a.yaml", "a: 2")
    ]


def test_a_name_never_leads_out_of_its_folder(tmp_path: Path) -> None:
    published.keep(tmp_path, "../../published-evil.yaml", "a: 1")

    (kept,) = (tmp_path / published.PUBLISHED).iterdir()
    assert kept.parent == tmp_path / published.PUBLISHED


def test_only_files_that_say_so_are_tables(tmp_path: Path) -> None:
    assert published.is_table(tmp_path / "published-study.yaml")
    assert not published.is_table(tmp_path / "study.yaml")
    assert not published.is_table(tmp_path / "published-study.json")
