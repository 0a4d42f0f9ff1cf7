"""Plans: the cells, the fewest launches, the order, the estimate."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from draftboard import cli
from runners.planning.estimate import (
    Assumed,
    Node,
    RecordedDurations,
    duration_of,
    estimate,
    read_recorded,
)
from runners.planning.plan import make_plan
from runners.planning.study_file import Study, read_study
from runners.surroundings.layout import records_under
from runners.texts.prompts import few_prompts
from warehouse.loads import Load

ROOT = Path(__file__).parents[2]
ONE, FOUR = Load("concurrency", 1.0), Load("concurrency", 4.0)
PUBLISHED = ROOT / "studies" / "gpt-oss-120b-eagle3.yaml"


def test_the_published_study_has_60_cells_on_6_launches() -> None:
    plan = make_plan(read_study(PUBLISHED))
    assert len(plan.cells) == 60
    assert Counter((c.dataset, c.tensor_parallel_size) for c in plan.cells) == {
        ("ShareGPT", 1): 24,
        ("MLPerf", 1): 12,
        ("MLPerf", 2): 12,
        ("SWE-bench", 1): 12,
    }
    assert sorted(launch.launch_id for launch in plan.launches) == [
        "r0-baseline-tp1",
        "r0-baseline-tp2",
        "r0-eagle3-k2-tp1",
        "r0-eagle3-k3-tp1",
        "r0-eagle3-k3-tp2",
        "r0-eagle3-k4-tp1",
    ]
    assert len({cell.key for cell in plan.cells}) == 60


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_study_of_ours_is_valid_and_its_keys_are_its_own(path: Path) -> None:
    study = read_study(path)
    plan = make_plan(study)
    assert study.name == path.stem
    assert len({cell.key for cell in plan.cells}) == len(plan.cells) > 0
    assert [cell.order for cell in plan.cells] == list(range(len(plan.cells)))


def test_a_server_configuration_is_started_once_a_repeat(study_of: Callable[..., Study]) -> None:
    plan = make_plan(study_of(repeats=3))
    assert Counter((x.variant.name, x.repeat) for x in plan.launches) == {
        (arm, repeat): 1 for arm in ("baseline", "ngram-k2", "ngram-k3") for repeat in range(3)
    }


def test_arms_are_interleaved_in_an_order_of_each_repeats_own(
    study_of: Callable[..., Study],
) -> None:
    many = [{"name": f"n{i}", "speculative_config": {"method": "ngram"}} for i in range(7)]
    arms = [{"name": "baseline"}, *many]

    def orders(seed: int) -> list[tuple[str, ...]]:
        plan = make_plan(study_of(repeats=3, arms=arms, order_seed=seed))
        return [
            tuple(x.variant.name for x in plan.launches if x.repeat == repeat)
            for repeat in range(3)
        ]

    first = orders(0)
    assert first == orders(0)
    assert len(set(first)) == 3
    assert first != orders(1)
    assert all(sorted(order) == sorted(first[0]) for order in first)


def test_a_fingerprint_changes_with_what_changes_a_result_only(
    study_of: Callable[..., Study],
) -> None:
    def prints(**changes: object) -> list[str]:
        return [cell.fingerprint for cell in make_plan(study_of(**changes)).cells]

    plain = prints()
    assert len(set(plain)) == 6
    for harmless in (
        {"limits": {"cell_s": 10}},
        {"price": {"usd_per_hour": 2.0, "gpus_per_instance": 8}},
        {"description": "other words"},
        {"environment": {"HF_HUB_OFFLINE": "1", "HF_TOKEN": "x"}},
        {"target": {"model": "org/target", "precision": "bf16", "served_name": "t"}},
    ):
        assert prints(**harmless) == plain
    for telling in (
        {"request": {"max_tokens": 7}},
        {"target": {"model": "org/other"}},
        {"prefix_cache": "keep"},
        {"environment": {"A": "1"}},
    ):
        assert not set(prints(**telling)) & set(plain)
    assert prints(concurrency=[1, 4, 8])[:2] == plain[:2]


def test_too_few_prompts_are_said_before_anything_starts() -> None:
    said = few_prompts(make_plan(read_study(PUBLISHED)))
    assert len(said) == 6
    assert "ShareGPT: 100 prompts at concurrency 200: fewer prompts than requests" in said[0]
    assert "concurrency 25, 100" in said[1]


def test_an_estimate_assumes_until_something_was_recorded(study_of: Callable[..., Study]) -> None:
    price = {"usd_per_hour": 36.0, "gpus_per_instance": 8}
    plan = make_plan(study_of(price=price, tensor_parallel_sizes=[2]))
    # Three starts of 100 s; per arm 20 waves and 5 waves of 1 s, and 30 s for each of two cells.
    seconds = 3 * (100 + 60 + 25)
    one_by_one = Node(gpus=8, servers=1)
    found = estimate(plan, RecordedDurations(), Assumed(1.0, 100.0), one_by_one)
    assert found.basis == "assumed"
    assert found.hours == pytest.approx(seconds / 3600)
    assert found.gpu_hours == pytest.approx(2 * seconds / 3600)
    assert found.usd == pytest.approx(36.0 * seconds / 3600)
    recorded = RecordedDurations(
        (("code", ONE, 10.0), ("code", ONE, 20.0), ("prose", FOUR, 5.0)), (40.0,)
    )
    better = estimate(plan, recorded, Assumed(), one_by_one)
    assert better.basis == "recorded"
    assert better.hours == pytest.approx(3 * (40 + 15 + 5) / 3600)


def test_without_records_a_request_takes_longer_among_others_and_less_for_a_short_answer(
    study_of: Callable[..., Study],
) -> None:
    datasets = [{"name": "code", "generator": {"kind": "code"}, "prompts_per_level": 100}]
    arms = [{"name": "baseline"}]

    def seconds(level: int, **changes: object) -> float:
        study = study_of(arms=arms, datasets=datasets, concurrency=[level], **changes)
        return 3600 * estimate(make_plan(study), RecordedDurations(), Assumed(None, 0.0)).hours - 30

    # 7 s alone; 7 x 100^0.43 = 50.71 s among a hundred, in one wave; 64 of 1000 tokens.
    assert seconds(1) == pytest.approx(700)
    assert seconds(100) == pytest.approx(50.71, abs=0.01)
    assert seconds(1, request={"max_tokens": 64}) == pytest.approx(0.064 * 700)


def test_the_published_study_takes_about_half_of_what_20_s_a_request_gave() -> None:
    plan = make_plan(read_study(PUBLISHED))
    assert 3.5 < estimate(plan, RecordedDurations(), Assumed()).sequential_hours < 4.7
    found = estimate(plan, RecordedDurations(), Assumed(20.0))
    assert found.sequential_hours == pytest.approx(7.9, abs=0.05)


def test_the_published_study_says_what_eight_gpus_take_and_what_one_by_one_leaves_idle() -> None:
    found = estimate(make_plan(read_study(PUBLISHED)), RecordedDurations(), Assumed())
    assert (found.gpus, found.side_by_side) == (8, 6)
    assert found.hours < found.sequential_hours / 3
    assert found.usd == pytest.approx(41.62 * found.hours)
    assert found.sequential_usd == pytest.approx(41.62 * found.sequential_hours)
    idle = 1 - found.gpu_hours / (8 * found.sequential_hours)
    assert found.idle_share == pytest.approx(idle)
    assert 0.8 < idle < 0.9


@pytest.mark.parametrize(
    "changes",
    [{"side_by_side": "never"}, {"evidence": "cpu"}, {"cpus": {"engine": [0], "client": [1]}}],
)
def test_a_study_may_keep_its_servers_apart_and_on_a_cpu_they_always_are(
    study_of: Callable[..., Study], changes: dict[str, object]
) -> None:
    plan = make_plan(study_of(**changes))
    found = estimate(plan, RecordedDurations(), Assumed(), Node(gpus=8))
    assert found.side_by_side == 1
    assert found.hours == pytest.approx(found.sequential_hours)


def test_without_a_word_on_the_node_launches_follow_each_other(
    study_of: Callable[..., Study],
) -> None:
    found = estimate(make_plan(study_of()), RecordedDurations(), Assumed())
    assert (found.gpus, found.side_by_side, found.idle_share) == (None, 1, None)


def test_what_is_left_of_a_run_is_told_by_how_its_launches_lie_side_by_side(
    study_of: Callable[..., Study],
) -> None:
    plan = make_plan(study_of())
    first, second, third = (launch.cells[0].key for launch in plan.launches)
    lasts = duration_of(plan, Node(gpus=2))
    # Two at a time: the third begins when the shorter of the first two ends.
    assert lasts({first: 100.0, second: 40.0, third: 50.0}) == 100
    assert lasts({first: 10.0, second: 40.0, third: 50.0}) == 60
    assert lasts({}) == 0


def test_launches_side_by_side_are_packed_on_the_gpus_that_there_are(
    study_of: Callable[..., Study],
) -> None:
    price = {"usd_per_hour": 3600.0, "gpus_per_instance": 4}
    plan = make_plan(study_of(price=price, tensor_parallel_sizes=[2]))
    # Three launches of 100 + 60 + 25 s on two GPUs each: two fit on four, the third waits.
    assumed = Assumed(1.0, 100.0)
    found = {n: estimate(plan, RecordedDurations(), assumed, Node(4, n)) for n in (1, 2, 8)}
    assert {n: round(one.hours * 3600) for n, one in found.items()} == {1: 555, 2: 370, 8: 370}
    assert found[8].usd == pytest.approx(370)
    assert {round(one.sequential_hours * 3600) for one in found.values()} == {555}


def test_recorded_durations_are_those_of_good_cells(tmp_path: Path) -> None:
    def record(name: str, **said: object) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(json.dumps(said))

    timeline = {"server_start": 30.0, "total": 50.0}
    record("a", dataset="code", concurrency=1, status="good", timeline=timeline)
    record("b", dataset="code", concurrency=1, status="failed", timeline=timeline)
    record("c", dataset="code", concurrency=1)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "record.json").write_text("{")
    assert read_recorded(records_under(tmp_path)) == RecordedDurations(
        (("code", ONE, 20.0),), (30.0,)
    )
    assert read_recorded(records_under(tmp_path / "none")) == RecordedDurations()


def test_the_command_prints_json_that_a_script_can_read() -> None:
    result = CliRunner().invoke(cli, ["plan", str(PUBLISHED), "--json"], catch_exceptions=False)
    said = json.loads(result.stdout)
    assert (said["cells"], said["server_launches"]) == (60, 6)
    assert len(said["commands"]) == 66
    assert sum("serve openai/gpt-oss-120b" in line for line in said["commands"]) == 6
    assert said["estimate"]["basis"] == "assumed"
    assert not [line for line in said["commands"] if re.search(r"\{\w+\}", line)]


def test_without_a_price_the_node_is_this_machine_with_its_gpus(
    study_of: Callable[..., Study], fake_driver: dict[str, str], tmp_path: Path
) -> None:
    assert study_of().price is None
    command = [sys.executable, "-m", "draftboard", "plan", str(tmp_path / "study.yaml"), "--json"]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, env=fake_driver, cwd=root, capture_output=True, text=True, check=True
    )
    estimate = json.loads(done.stdout)["estimate"]
    assert (estimate["gpus"], estimate["side_by_side"]) == (2, 2)


def test_commands_are_labelled_and_can_be_run_as_they_stand() -> None:
    result = CliRunner().invoke(cli, ["plan", str(PUBLISHED), "--commands", "--parallel", "8"])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    labels = [line for line in lines if line.startswith("# ")]
    assert len(labels) == 66
    assert labels[0] == "# r0-baseline-tp1: the server"
    assert labels[1] == "# r0-baseline-tp1: the load of baseline/tp1/ShareGPT/c1-r0"
    assert "--port 8000" in lines[lines.index(labels[0]) + 1]
    load = lines[lines.index(labels[1]) + 1]
    assert "http://127.0.0.1:8000" in load
    assert "results/gpt-oss-120b-eagle3/prompts/ShareGPT-c1.jsonl" in load
    assert "on 8 GPUs with up to 6 servers side by side" in result.output


def test_a_study_that_pins_its_servers_is_not_planned_side_by_side() -> None:
    lab = str(ROOT / "studies" / "laptop-lab.yaml")
    result = CliRunner().invoke(cli, ["plan", lab, "--parallel", "2"])
    assert result.exit_code == 1
    assert "leave --parallel out" in result.output + str(result.exception)


def test_the_command_prints_a_table_and_what_it_costs() -> None:
    result = CliRunner().invoke(cli, ["plan", str(PUBLISHED)], catch_exceptions=False)
    assert "60 cells on 6 server launches" in result.output
    assert "r0-eagle3-k3-tp2" in result.output
    assert "USD (whole instance of 8 GPUs at 41.62 USD/h" in result.output
    assert "warning: ShareGPT" in result.output
    assert (
        "one after the other (--parallel 1): 4.3 h and 180 USD, and 85% of the 8" in result.output
    )
