"""What a results folder holds of a plan, and what a changed study makes of it."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from runners.measuring.resume import Now, bring_back, differences, look, set_aside
from runners.planning.plan import PlannedCell, make_plan, select
from runners.planning.study_file import MeasuredWindow, read_study
from runners.serving.engines import Software
from runners.surroundings.layout import Layout
from runners.texts.prompts import PromptFiles
from warehouse.errors import RunnerError

ROOT = Path(__file__).parents[2]
LAB = Software("vllm", "0.32.0+cpu", None, "0.8.1", None)


def put(layout: Layout, cell: PlannedCell, software: Software = LAB) -> Path:
    """A good cell as a run leaves it, as far as resuming reads it."""
    folder = layout.cell(cell.key, software.name)
    folder.mkdir(parents=True)
    environment = {"asked": dict(cell.identity), "software": software.as_json()}
    record = {"schema_version": 1, "fingerprint": cell.fingerprint, "environment": environment}
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


def test_a_changed_study_says_which_cells_it_loses_and_why(study_of, tmp_path: Path) -> None:
    layout = Layout(tmp_path, "tiny")
    for cell in make_plan(study_of()).cells:
        put(layout, cell)
    arms = [{"name": "baseline", "engine_args": {"max-num-seqs": 8}}]

    changed = make_plan(study_of(arms=arms))
    found = look(changed, layout)

    assert found.changed == changed.cells
    assert found.reasons == ("server_args",)


@pytest.mark.parametrize(
    "edit",
    [
        {"price": {"usd_per_hour": 1, "gpus_per_instance": 1}},
        {"concurrency": [1, 4, 8]},
        {"concurrency": [4]},
        {"environment": {"HF_HUB_OFFLINE": "1"}},
        {"environment": {"HF_TOKEN": "hf_xxxxxxxxxxxxxxxxxxxxx", "MY_API_KEY": "x"}},
        {"target": {"model": "org/target", "served_name": "label", "precision": "bf16"}},
        {"evidence": "mock", "description": "a label", "repeats": 3},
    ],
    ids=str,
)
def test_labels_tokens_and_sibling_loads_invalidate_nothing(study_of, tmp_path, edit) -> None:
    layout, before = Layout(tmp_path, "tiny"), make_plan(study_of())
    for cell in before.cells:
        put(layout, cell)
    plan = make_plan(study_of(**edit))
    found = look(plan, layout)

    assert found.changed == ()
    kept = {cell.key for cell in before.cells} & {cell.key for cell in plan.cells}
    assert {cell.key for cell in found.good} == kept


@pytest.mark.parametrize(
    "other",
    [
        Software("vllm", "0.33.0", None, "0.8.1", None),
        Software("vllm", "0.32.0+cpu", None, "0.8.2", None),
    ],
    ids=lambda other: other.name,
)
def test_other_software_makes_other_cells_and_the_old_ones_stay(
    study_of, tmp_path: Path, other: Software
) -> None:
    plan, layout = make_plan(study_of()), Layout(tmp_path, "tiny")
    measured = Software(**(LAB.as_json() | {"engine_executable": "vllm"}))
    for cell in plan.cells:
        put(layout, cell, measured)

    assert look(plan, layout, now=Now(other)).missing == plan.cells
    assert look(plan, layout, now=Now(measured)).good == plan.cells
    assert look(plan, layout).good == plan.cells


def test_another_executable_of_the_same_version_replaces_and_says_so(
    study_of, tmp_path: Path
) -> None:
    plan, layout = make_plan(study_of()), Layout(tmp_path, "tiny")
    for cell in plan.cells:
        put(layout, cell, Software(**(LAB.as_json() | {"engine_executable": "vllm"})))
    patched = Software(**(LAB.as_json() | {"engine_executable": "./patched/vllm"}))
    found = look(plan, layout, now=Now(patched))

    assert found.changed == plan.cells
    assert found.reasons == ("engine_executable",)


def test_what_was_replaced_on_purpose_does_not_come_back(study_of, tmp_path: Path) -> None:
    plan, layout = make_plan(study_of()), Layout(tmp_path, "tiny")
    set_aside([put(layout, cell) for cell in plan.cells], layout, replaced=True)
    found = look(plan, layout)

    assert found.missing == plan.cells
    assert found.returning == ()
    assert len(list(layout.root.rglob(".superseded/**/record.json"))) == len(plan.cells)


@pytest.mark.parametrize("name", ["laptop-lab", "laptop-lab-costly"])
def test_records_from_before_are_known_by_their_own_facts(name: str, tmp_path: Path) -> None:
    """The recorded lab, whose records hold neither these facts nor these paths."""
    file, layout = ROOT / "studies" / f"{name}.yaml", Layout(ROOT / "examples" / "lab", name)
    study = read_study(file)

    assert look(make_plan(study), layout, now=Now(LAB)).good == make_plan(study).cells
    newer = Software("vllm", "0.33.0", None, "0.8.1", None)
    assert look(make_plan(study), layout, now=Now(newer)).missing == make_plan(study).cells

    said = yaml.safe_load(file.read_text())
    for part, edit in EDITS.items():
        changed = copy.deepcopy(said)
        edit(changed)
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(changed))
        plan = make_plan(read_study(tmp_path / "study.yaml"))
        found = look(plan, layout, now=Now(LAB))
        assert found.changed, part
        assert found.reasons == (part,)


def _in(*path: Any) -> Callable[[dict[str, Any]], None]:
    """An edit of a study: the value at a path."""

    def edit(said: dict[str, Any]) -> None:
        *place, last, value = path
        for key in place:
            said = said[key]
        said[last] = value

    return edit


EDITS: dict[str, Callable[[dict[str, Any]], None]] = {
    "model": _in("target", "model", "./lab-models/other"),
    "server_args": _in("target", "engine_args", "max-num-seqs", 8),
    "speculative_config": _in("arms", 1, "speculative_config", "method", "eagle"),
    "request": _in("request", "max_tokens", 65),
    "window": _in("window", "warm_up", 0.2),
    "environment": _in("environment", "VLLM_CPU_KVCACHE_SPACE", "2"),
    "prompts": _in("datasets", 0, "prompts_per_level", 1, 21),
}


def test_other_prompts_are_told_by_their_hash(study_of, tmp_path: Path) -> None:
    plan, layout = make_plan(study_of()), Layout(tmp_path, "tiny")
    for cell in plan.cells:
        record = put(layout, cell) / "record.json"
        said = json.loads(record.read_text()) | {"prompt_set_hash": "a"}
        record.write_text(json.dumps(said))

    assert look(plan, layout, now=Now(prompts=lambda cell: "a")).good == plan.cells
    assert look(plan, layout, now=Now(prompts=lambda cell: "b")).reasons == ("prompts",)


def test_levels_keep_their_prompts_whatever_levels_come_and_go(study_of, tmp_path: Path) -> None:
    layout = Layout(tmp_path, "tiny")

    def hashes(levels: list[int], **changes: object) -> dict[int, str]:
        plan = make_plan(study_of(concurrency=levels, arms=[{"name": "baseline"}], **changes))
        files = PromptFiles(plan.study, layout)
        told = {cell.concurrency: files.hash_of(cell) for cell in plan.cells}
        assert told == {cell.concurrency: files.of(cell).hash for cell in plan.cells}
        assert len(set(told.values())) == len(levels)
        return {level: str(said) for level, said in told.items()}

    first = hashes([1, 4])
    more = hashes([8, 1, 2, 4])
    assert {level: more[level] for level in first} == first
    assert hashes([4]) == {4: first[4]}
    other = [{"name": "code", "generator": {"kind": "code"}, "prompts_per_level": 20,
              "shuffle_seed": 1}]  # fmt: skip
    assert hashes([4], datasets=other)[4] != first[4]


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
        folder = put(layout, cell)
        (folder / "value").write_text(str(value))
        set_aside([folder], layout)

    assert look(plan, layout).missing == plan.cells
    kept = sorted(layout.root.rglob("value"))
    assert [path.read_text() for path in kept] == ["1", "2"]
    assert all(".superseded" in path.parts for path in kept)


def test_a_study_that_is_reverted_has_its_results_back(study_of, tmp_path: Path) -> None:
    layout, one = Layout(tmp_path, "tiny"), make_plan(study_of())
    other = make_plan(study_of(request={"max_tokens": 7}))
    for plan in (one, other):
        for cell in plan.cells:
            found = look(plan, layout)
            set_aside([found.states[cell.key].folder], layout)
            put(layout, cell)

    for plan in (one, other, one):
        found = look(plan, layout)
        assert found.changed == found.returning == plan.cells
        bring_back(found, layout)
        assert look(plan, layout).good == plan.cells


def test_attempts_are_counted_by_their_folders(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "tiny")
    assert layout.attempts("a/c1-r0") == 0
    for number in (1, 2, 10):
        layout.failed("a/c1-r0", number).mkdir(parents=True)
    layout.failed("a/c1-r00", 12).mkdir(parents=True)
    assert layout.attempts("a/c1-r0") == 10


def test_a_load_whose_name_is_a_pattern_of_files_is_found_again(study_of, tmp_path: Path) -> None:
    (tmp_path / "day[1].jsonl").write_text('{"timestamp": 0}\n{"timestamp": 1}\n')
    plan = make_plan(study_of(concurrency=None, load={"replay": "day[1].jsonl"}))
    layout, (first, second, *_) = Layout(tmp_path, "tiny"), plan.cells
    folder = put(layout, first)
    layout.failed(second.key, 2).mkdir(parents=True)

    assert look(plan, layout).good == (first,)
    assert layout.attempts(second.key) == 2
    set_aside([folder], layout)
    assert layout.set_aside(first.key) == [
        layout.root / ".superseded" / f"{first.key}@{LAB.name}.1"
    ]


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
        (["colour=red"], None, "one of arm, dataset, tp, concurrency, load, repeat"),
        (["arm"], None, "FIELD=VALUE"),
        ([], "r9-x", "no launch 'r9-x'"),
        (["arm=ngram-k2"], "r0-baseline-tp1", "No cell of the study is left"),
    ],
)
def test_a_selection_that_cannot_be_says_what_there_is(study_of, only, launch, said: str) -> None:
    with pytest.raises(RunnerError, match=said):
        select(make_plan(study_of()), only, launch)


def test_warming_up_by_the_load_measures_nothing_again_and_another_number_does() -> None:
    ends = {"warm_up": 0.0, "cool_down": 0.0}
    record = {"environment": {"asked": {"window": {"warm_up_requests": 4, **ends}}}}
    assert differences(record, {"window": ends}, None) == []
    assert differences(record, {"window": {"warm_up_requests": 8, **ends}}, None) == ["window"]
    by_load = {"environment": {"asked": {"window": ends}}}
    assert differences(by_load, {"window": ends}, None) == []
    assert differences(by_load, {"window": {**ends, "warm_up": 0.1}}, None) == ["window"]


@pytest.mark.parametrize(
    ("stated", "in_flight", "expected"),
    [(None, 1, 4), (None, 64, 64), (None, 5000, 512), (0, 64, 0), (8, 64, 8)],
)
def test_a_level_is_warmed_up_by_as_many_as_it_has_in_flight(
    stated: int | None, in_flight: int, expected: int
) -> None:
    assert MeasuredWindow(warm_up_requests=stated).warm_up_at(in_flight) == expected
