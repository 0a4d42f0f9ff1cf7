"""Facts derived per study: the same as computed, and only of the study that changed."""

import itertools
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas.testing
import pyarrow as pa
import pytest
from click.testing import CliRunner

from analysis.matching.arms import BASELINE
from answers import code_hash
from answers.ground import Ground, derive, ground, ground_of, rows_of
from commands.keeping import ingest as intake
from draftboard import cli
from warehouse import queries
from warehouse.beside import derived_upto
from warehouse.filters import Filters
from warehouse.queries import cells_of_grown_studies
from warehouse.rows import Cell, Measurement, Source
from warehouse.store import Reader, open_writer

Study = Callable[..., None]
ARMS = (("none", None, 1.0), ("eagle3", 3, 1.3), ("ngram", 2, 0.9))


@pytest.fixture
def study(make_source: Any, make_cell: Any) -> Study:
    """``study(root, name, first, last)``: repeats of three arms at three loads."""

    def add(root: Path, name: str | None, first: int, last: int) -> None:
        with open_writer(root) as writer:
            for repeat, (method, k, scale) in itertools.product(range(first, last), ARMS):
                source = make_source(f"{name} {repeat} {method}")
                said = {
                    "study": name, "spec_method": method, "num_speculative_tokens": k,
                    "repeat": repeat, "launch": f"{method}-{repeat}",
                    "dataset": f"data of {name}",
                }  # fmt: skip
                luck = 1 + ((7 * repeat + len(method)) % 5) / 50
                cells = (make_cell(source, i, scale * luck, said) for i in range(3))
                writer.add(source, cells)
            writer.commit()

    return add


@pytest.fixture
def root(warehouse_path: Path, study: Study) -> Path:
    """Three studies, one of which has no name."""
    for name in ("a", None, "b"):
        study(warehouse_path, name, 0, 3)
    return warehouse_path


def refuse_to_read_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    read_them = queries.answers

    def of_nothing(reader: Reader, cell_ids: Collection[str]) -> pa.Table:
        assert not cell_ids
        return read_them(reader, cell_ids)

    monkeypatch.setattr("warehouse.queries.answers", of_nothing)


def facts(root: Path) -> dict[str, bytes]:
    """Those of differences, by study; those of answers lie beside them."""
    found = {path.name: path.read_bytes() for path in (root / "derived").glob("*.parquet")}
    assert all(
        name.replace(".", ".answers.", 1) in found for name in found if ".answers" not in name
    )
    return {name: content for name, content in found.items() if ".answers" not in name}


def read(root: Path, filters: Filters | None = None, reference: str = BASELINE) -> Ground:
    with Reader(root) as reader:
        return ground(reader, filters, reference=reference)


def require_the_same_as_computed(root: Path) -> None:
    with Reader(root) as reader:
        told = ground(reader)
        computed = ground_of(rows_of(reader, told.cells, Filters()), told.shown)
    assert len(computed.sure.levels) > 20
    for name in ("levels", "means"):
        one, other = (
            getattr(found.sure, name).astype({"word": object}) for found in (told, computed)
        )
        pandas.testing.assert_frame_equal(one, other)


def test_what_is_derived_is_what_would_be_computed(root: Path) -> None:
    assert derive(root) == 3
    assert len(facts(root)) == 3
    require_the_same_as_computed(root)
    assert derive(root) == 0


def test_facts_are_read_and_not_computed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    derive(root)

    def refused(*_: Any) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr("answers.ground.effects", refused)
    refuse_to_read_answers(monkeypatch)
    assert len(read(root).sure.levels) > 20
    assert len(read(root, Filters(study=("b",))).sure.levels) > 5


def test_a_report_rewrites_the_facts_of_its_own_study_and_no_others(
    root: Path, study: Study
) -> None:
    derive(root)
    before = facts(root)
    study(root, "b", 3, 4)
    require_the_same_as_computed(root)
    assert derive(root) == 1
    after = facts(root)
    assert before.items() <= after.items()
    new = sum(len(content) for name, content in after.items() if name not in before)
    assert new <= 0.5 * sum(map(len, before.values()))
    require_the_same_as_computed(root)


def test_an_exclusion_derives_its_study_anew_and_taking_it_back_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive(root)
    before = facts(root)
    monkeypatch.setattr(intake, "LEAST_CELLS", 1)
    run = next(r for r in read(root).cells.to_dict("records") if r["study"] == "a")
    for word, new in (("exclude", 1), ("include", 1)):
        words = [word, f"{run['run_id']}@{run['source_id'][:8]}", "--reason", "warm"]
        done = CliRunner().invoke(cli, [*words, "--warehouse", str(root)])
        assert done.exit_code == 0, done.output
        assert len(facts(root).keys() - before.keys()) == new
        require_the_same_as_computed(root)


@pytest.mark.parametrize("how", ["gone", "cut", "altered"])
def test_facts_that_cannot_be_read_are_computed(root: Path, how: str) -> None:
    derive(root)
    for path in (root / "derived").glob("*.parquet"):
        content = path.read_bytes()
        if how == "gone":
            path.unlink()
        elif how == "cut":
            path.write_bytes(content[:100])
        else:
            middle = 40
            path.write_bytes(
                content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
            )
    require_the_same_as_computed(root)


def test_other_ways_of_comparing_do_not_read_them(root: Path) -> None:
    derive(root)
    eagle = read(root, reference="eagle3 K=3")
    assert set(eagle.sure.levels["arm_id"]) != set(read(root).sure.levels["arm_id"]) or not (
        eagle.sure.levels["improvement"].equals(read(root).sure.levels["improvement"])
    )


def test_a_small_warehouse_derives_nothing_at_an_ingest(root: Path, tmp_path: Path) -> None:
    intake.derive_facts(root)
    assert not (root / "derived").exists()
    intake.derive_facts(tmp_path / "none")


def test_an_ingest_derives_once_the_studies_that_have_grown_are_large_together(
    root: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "LEAST_CELLS", 30)
    intake.derive_new_facts(root)
    first = facts(root)
    assert len(first) == 3
    for name in (None, "c", "d"):
        # 9 cells more make one study of 36; two new ones of 9 are 18.
        large = name is None
        study(root, name, 3, 4) if large else study(root, name, 0, 1)
        before = facts(root)
        intake.derive_new_facts(root)
        assert len(facts(root).keys() - before.keys()) == (1 if large else 0), name
    study(root, "b", 3, 4)
    before = facts(root)
    intake.derive_new_facts(root)
    assert len(facts(root).keys() - before.keys()) == 3
    require_the_same_as_computed(root)


def test_where_nobody_knows_what_was_derived_everything_has_grown(root: Path) -> None:
    derive(root)
    with Reader(root) as reader:
        upto = derived_upto(root, code_hash())
        assert upto is not None
        assert cells_of_grown_studies(reader, upto) == 0
        other = derived_upto(root, "other code")
        (root / "derived" / "upto").write_text("yesterday")
        damaged = derived_upto(root, code_hash())
        for nobody_knows in (other, damaged):
            assert nobody_knows is None
            assert cells_of_grown_studies(reader, nobody_knows) == 81


@pytest.mark.parametrize("by", ["lengths", "texts"])
def test_answers_that_break_are_counted_once_and_then_kept(
    warehouse_path: Path, make_source: Callable[..., Source], make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch, by: str,
) -> None:  # fmt: skip
    def broken(cell: Cell, share: float) -> Cell:
        """Of the answers of a cell this share breaks."""
        count, tokens = cell.requests.num_rows, cell.requests["output_tokens"].to_pylist()
        lengths = [1 if n < share * count and by == "lengths" else t for n, t in enumerate(tokens)]
        at = cell.requests.schema.get_field_index("output_tokens")
        requests = cell.requests.set_column(
            at,
            cell.requests.schema.field(at),
            pa.array(lengths, cell.requests.schema.field(at).type),
        )
        told = [Measurement("canonical", "output_tokens", name, float(value)) for name, value in
                (("min", min(lengths)), ("p50", 101), ("p99", 101), ("max", 101))]  # fmt: skip
        if by == "texts":
            told.append(Measurement("canonical", "repeating_answers", "mean", share))
        return replace(cell, requests=requests, measurements=(*cell.measurements, *told))

    with open_writer(warehouse_path) as writer:
        for study, repeat, (method, k, scale) in itertools.product("ab", range(3), ARMS):
            source = make_source(f"{study} {repeat} {method}")
            said = {
                "study": study, "spec_method": method, "num_speculative_tokens": k, "repeat": repeat,
                "launch": f"{method}-{repeat}", "dataset": study,
            }  # fmt: skip
            share = 0.9 if study == "b" and method == ARMS[-1][0] else 0.0
            writer.add(source, [broken(make_cell(source, 0, scale, said), share)])
        writer.commit()
    computed = read(warehouse_path).broken
    assert [arm.settled for arms in computed.values() for arm in arms] == [True]

    assert derive(warehouse_path) == 2
    refuse_to_read_answers(monkeypatch)

    assert read(warehouse_path).broken == computed
    assert len(read(warehouse_path, Filters(study=("b",))).broken) == 1
