"""The files of searches, beside the generations of a warehouse."""

from pathlib import Path

from warehouse.beside import read_searches, searches_version, write_search


def test_a_search_has_one_file_which_is_replaced(tmp_path: Path) -> None:
    for text in ("one", "two"):
        write_search(tmp_path, "mine", text)
    write_search(tmp_path, "other", "three")

    assert read_searches(tmp_path) == (b"two", b"three")


def test_a_file_that_is_being_written_is_no_search(tmp_path: Path) -> None:
    write_search(tmp_path, "mine", "one")
    (tmp_path / "searches" / ".tmp-other.json").write_text("half of")

    assert read_searches(tmp_path) == (b"one",)


def test_the_version_changes_with_every_change(tmp_path: Path) -> None:
    seen = [searches_version(tmp_path)]
    for name, text in (("mine", "one"), ("mine", "longer"), ("other", "one")):
        write_search(tmp_path, name, text)
        seen.append(searches_version(tmp_path))

    assert len(set(seen)) == len(seen)
