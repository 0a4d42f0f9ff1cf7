"""Published tables on their way in: found in folders by name, read once, never mixed with results."""

from pathlib import Path

import pytest

from tests.commands.asking import run, told
from warehouse.beside import published_tables

STUDY = Path(__file__).parents[2] / "examples" / "claims" / "published-study.yaml"


def test_a_folder_gives_its_published_tables_and_no_other_yaml(tmp_path: Path) -> None:
    folder, root = tmp_path / "given", tmp_path / "warehouse"
    folder.mkdir()
    (folder / "published-study.yaml").write_text(
        STUDY.read_text(encoding="utf-8"), encoding="utf-8"
    )
    (folder / "study.yaml").write_text("arms: []", encoding="utf-8")

    first = told("ingest", str(folder), "--warehouse", str(root))
    again = told("ingest", str(folder), "--warehouse", str(root))

    assert (first["accepted"], first["cells"], first["rejected"]) == (1, 0, [])
    assert (again["accepted"], again["known"]) == (0, 1)
    assert [one.name for one in published_tables(root)] == ["published-study.yaml"]


def test_a_table_that_cannot_be_recomputed_is_rejected_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "published-nothing.yaml"
    file.write_text("rules: [start at 3]", encoding="utf-8")

    done = run("ingest", str(file), "--warehouse", str(tmp_path / "warehouse"))

    assert done.exit_code == 1
    assert "holds no figure that can be recomputed" in done.output
    assert not published_tables(tmp_path / "warehouse")


def test_a_table_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "published-binary.yaml"
    file.write_bytes(b"\xff\xfe\x00")

    assert (
        "no text in UTF-8: convert it"
        in run("ingest", str(file), "--warehouse", str(tmp_path / "w")).output
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html><body>404</body></html>", "This is neither"),
        (b"{}", "This is neither"),
        (b"server: {port: 1}", "This is neither"),
        (b"", "is empty: "),
        ("a: 1".encode("utf-16"), "convert it to UTF-8"),
        (b"- {baseline: 1}", "holds no figure"),
    ],
)
def test_yaml_with_no_row_of_a_table_is_refused_like_any_file(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "report.yaml"
    file.write_bytes(content)
    assert said in run("ingest", str(file), "--warehouse", str(tmp_path / "w")).output


def test_the_command_lists_each_error_once_with_its_consequences_under_it() -> None:
    lines = run("claims", str(STUDY)).output.splitlines()

    heads = [line for line in lines if line[:2] in ("1.", "2.", "3.", "4.", "5.")]
    assert len(heads) == 4
    assert sum(line.startswith("   - ") for line in lines) == 11
    assert any(line.startswith("11 of 51 published figures") for line in lines)
