"""What a results folder holds of a plan, and what a changed study makes of it."""

import json
from pathlib import Path

import pytest

from runners.measuring.layout import Layout
from runners.measuring.resume import look, set_aside
from runners.planning.plan import PlannedCell, make_plan
from runners.planning.selection import select
from warehouse.errors import RunnerError


def put(layout: Layout, cell: PlannedCell, **said: object) -> Path:
    folder = layout.cell(cell.key)
    folder.mkdir(parents=True)
    record = {"schema_version": 1, "fingerprint": cell.fingerprint, **said}
    (folder / "record.json").write_text(json.dumps(record))
    return folder


def test_good_cells_are_not_run_again(study_of, tmp_path: Path) -> None:
    plan, layout = make_plan(study_of()), Layout(tmp_path, "tiny")
    first, second, *others = plan.cells
    put(layout, first)
    layout.failed(second.key, 1).mkdir(parents=True)
    layout.partial(others[0].key).mkdir(parents=True)

    found = look(plan, layout)

    assert (found.good, found.failed, found.missing) == ((first,), (second,), tuple(others))
    assert found.to_run == (second, *others)


def test_a_changed_study_says_which_cells_it_loses(study_of, tmp_path: Path) -> None:
    layout = Layout(tmp_path, "tiny")
    for cell in make_plan(study_of()).cells:
        put(layout, cell)
    arms = [{"name": "baseline", "engine_args": {"max-num-seqs": 8}}]

    changed = make_plan(study_of(arms=arms))
    found = look(changed, layout)

    assert found.changed == changed.cells
    assert (
        look(make_plan(study_of(price={"usd_per_hour": 1, "gpus_per_instance": 1})), layout).changed
        == ()
    )


@pytest.mark.parametrize("text", ["", "[]", '{"status": "failed"}', "\x00"])
def test_what_is_no_good_record_does_not_count(study_of, tmp_path: Path, text: str) -> None:
    plan, layout = make_plan(study_of()), Layout(tmp_path, "tiny")
    (put(layout, plan.cells[0]) / "record.json").write_text(text)

    assert look(plan, layout).changed == plan.cells[:1]


def test_old_results_are_set_aside_not_deleted_and_where_no_reader_looks(
    study_of, tmp_path: Path
) -> None:
    plan, layout = make_plan(study_of()), Layout(tmp_path, "tiny")
    cell = plan.cells[0]
    for value in (1, 2):
        (put(layout, cell) / "value").write_text(str(value))
        set_aside([cell], layout)

    assert look(plan, layout).missing == plan.cells
    kept = sorted(layout.root.rglob("value"))
    assert [path.read_text() for path in kept] == ["1", "2"]
    assert all(".superseded" in path.parts for path in kept)


def test_attempts_are_counted_by_their_folders(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "tiny")
    assert layout.attempts("a/c1-r0") == 0
    for number in (1, 2, 10):
        layout.failed("a/c1-r0", number).mkdir(parents=True)
    layout.failed("a/c1-r00", 12).mkdir(parents=True)
    assert layout.attempts("a/c1-r0") == 10


def test_only_takes_the_cells_for_which_every_term_holds(study_of) -> None:
    plan = make_plan(study_of())
    found = select(plan, ["arm=baseline,ngram-k2", "concurrency=4"], None)

    assert [cell.key for cell in found] == [
        "baseline/tp1/code/c4-r0", "ngram-k2/tp1/code/c4-r0",
    ]  # fmt: skip
    assert select(plan, [], plan.launches[1].launch_id) == plan.launches[1].cells


@pytest.mark.parametrize(
    ("only", "launch", "said"),
    [
        (["arm=nobody"], None, "it has baseline, ngram-k2, ngram-k3"),
        (["colour=red"], None, "one of arm, dataset, tp, concurrency, repeat"),
        (["arm"], None, "FIELD=VALUE"),
        ([], "r9-x", "no launch 'r9-x'"),
        (["arm=ngram-k2"], "r0-baseline-tp1", "No cell of the study is left"),
    ],
)
def test_a_selection_that_cannot_be_says_what_there_is(study_of, only, launch, said: str) -> None:
    with pytest.raises(RunnerError, match=said):
        select(make_plan(study_of()), only, launch)
