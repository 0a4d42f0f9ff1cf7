"""Reports as people have them pair: default ``vllm bench serve`` files, sampled GuideLLM ones.

The vLLM bench files are in the shape of ``vllm bench serve --save-result --metric-percentiles
50,90,99``, without ``--save-detailed``, and their numbers are made up.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.flags.validity import DECIDES_NOTHING
from analysis.matching.comparison import Comparison, compare
from warehouse import queries
from warehouse.catalogue import METRICS, STATISTICS
from warehouse.filters import Filters
from warehouse.store import Reader

FILES = Path(__file__).parents[1] / "fixtures" / "vllm-bench"


def compared(run: Any) -> Comparison:
    with Reader(run.root) as reader:
        cells = queries.cells(reader, Filters()).to_pandas()
        values = queries.measurements(reader, Filters(), list(METRICS), STATISTICS).to_pandas()
    return compare(cells, values)


def lines(found: Comparison) -> dict[tuple[str, str], tuple[float, float]]:
    """Both values of each metric and statistic of the first pair."""
    rows = found.pairs[found.pairs["speculative_id"] == found.pairs["speculative_id"].iloc[0]]
    return {
        (row.metric, row.statistic): (row.baseline, row.speculative) for row in rows.itertuples()
    }


@pytest.fixture
def defaults(run: Any) -> Any:
    """A warehouse of three default files of each arm, one ``--set`` a file."""
    for arm, method in (("baseline", "none"), ("ngram", "ngram")):
        paths = sorted(FILES.glob(f"{arm}-*.json"))
        assert run(*paths, "--set", f"spec_method={method}").status == 0
    return run


def test_default_files_pair_in_all_that_both_report(defaults: Any) -> None:
    found = compared(defaults)
    assert found.unmatched.empty
    assert found.pairs["speculative_id"].nunique() == 3
    assert set(lines(found)) >= {
        ("output_throughput", "mean"), ("ttft", "p50"), ("ttft", "p99"), ("itl", "p90"),
        ("chunk_gap", "mean"),
    }  # fmt: skip
    assert {str(origin) for origin in found.pairs["origin"]} == {"reported"}


def test_each_repeat_pairs_with_the_one_that_ran_next_to_it(defaults: Any) -> None:
    pairs = compared(defaults).pairs.drop_duplicates("speculative_id")
    started = {cell["cell_id"]: cell["started_at"] for cell in defaults.cells()}
    apart = pd.to_timedelta(
        [started[s] - started[b] for s, b in zip(pairs["speculative_id"], pairs["baseline_id"], strict=True)]
    )  # fmt: skip
    assert (apart.total_seconds() < 120).all()


def test_what_only_one_arm_tells_of_the_engine_is_unverified(defaults: Any) -> None:
    engines = {(cell["arm_label"], cell["engine"]) for cell in defaults.cells()}
    assert engines == {("baseline", None), ("ngram K=3", "vllm")}
    for flags in compared(defaults).pairs["flags"]:
        (flag,) = [flag for flag in flags if flag.name == "unverified"]
        assert "engine, " in flag.sentence


def test_acceptance_alone_makes_no_cell_canonical(defaults: Any) -> None:
    assert {cell["comparable_as"] for cell in defaults.cells()} == {"reported: vllm-bench"}


def test_the_order_of_default_files_is_kept_and_marked_as_local_time(defaults: Any) -> None:
    cells = sorted(defaults.cells(), key=lambda cell: cell["started_at"])
    assert [cell["spec_method"] for cell in cells] == ["none", "ngram"] * 3
    assert {str(cell["path"].split("/")[-1][-6]) for cell in cells[:2]} == {"0"}
    assert all("local_time" in defaults.flags(cell["cell_id"]) for cell in cells)


def test_percentile_50_that_is_given_twice_is_read_once(defaults: Any) -> None:
    (cell,) = [c for c in defaults.cells() if c["path"].endswith("baseline-0.json")]
    rows = defaults.of_cell(queries.cell_measurements, cell["cell_id"])
    medians = [r["value"] for r in rows if (r["metric"], r["statistic"]) == ("ttft", "p50")]
    stated = json.loads((FILES / "baseline-0.json").read_text())
    assert medians == [stated["median_ttft_ms"]]


@pytest.fixture
def sampled(run: Any, write: Any, report: Any) -> Any:
    """Two GuideLLM reports that keep 5 and 6 of 20 requests, one ``--set`` a file."""
    for kept, method in ((5, "none"), (6, "eagle3")):
        data = report(levels=(4,))
        requests = data["benchmarks"][0]["requests"]
        requests["successful"] = requests["successful"][:kept]
        path = write(f"{method}.json", data)
        assert run(path, "--set", f"spec_method={method}").status == 0
    return run


def test_sampled_reports_pair_though_they_keep_other_requests(sampled: Any) -> None:
    found = compared(sampled)
    assert found.unmatched.empty
    assert lines(found)["output_throughput", "mean"] == (36.0, 36.0)
    assert ("ttft", "p99") in lines(found)
    (flag,) = [f for f in found.pairs["flags"].iloc[0] if f.name == "unverified"]
    assert "prompt set" in flag.sentence


def test_counters_beside_one_sampled_report_do_not_part_it_from_the_other(
    run: Any, write: Any, report: Any
) -> None:
    data = report(levels=(4,))
    requests = data["benchmarks"][0]["requests"]
    requests["successful"] = requests["successful"][:5]
    for arm, facts in (("b", {"spec_method": "none"}), ("s", {"spec_method": "eagle3"})):
        folder = write(f"{arm}/record.json", {"schema_version": 1, **facts}).parent
        write(f"{arm}/guidellm.json", data)
        drafts = 10 if arm == "s" else 0
        for name, count in (("before", 0), ("after", drafts)):
            write(f"{arm}/metrics-{name}.prom", exposition(count))
        assert run(folder).status == 0
    found = compared(run)
    assert ("output_throughput", "mean") in lines(found)
    assert {cell["comparable_as"] for cell in run.cells()} == {"reported: guidellm>=0.7.4"}


def exposition(drafts: int) -> str:
    names = {"drafts": drafts, "draft_tokens": 3 * drafts, "accepted_tokens": 2 * drafts}
    return "".join(f"vllm:spec_decode_num_{n}_total {value}.0\n" for n, value in names.items())


def test_an_arm_that_never_drafted_is_marked_to_decide_nothing(
    run: Any, write: Any, bench: Any
) -> None:
    path = write("idle.json", bench(spec_decode_num_drafts=0, spec_decode_draft_tokens=0,
                                    spec_decode_accepted_tokens=0, spec_decode_acceptance_rate=0.0,
                                    spec_decode_acceptance_length=0.0,
                                    spec_decode_per_position_acceptance_rates=[]))  # fmt: skip
    assert run(path, "--set", "spec_method=ngram").status == 0
    (cell,) = run.cells()
    assert run.flags(cell["cell_id"]) & DECIDES_NOTHING == {"never_speculated"}


def test_sglang_servers_of_another_size_or_with_other_arguments_are_neither_partners_nor_repeats(
    run: Any,
) -> None:
    folder = FILES.parent / "cases" / "04-sglang-servers-of-different-size-paired"
    assert run(folder, "--set", "gpu=H100").status == 0
    cells = {Path(cell["path"]).stem: cell for cell in run.cells()}
    found = compared(run)
    why = dict(zip(found.unmatched["cell_id"], found.unmatched["reason"], strict=True))

    assert {name: cell["gpu_count"] for name, cell in cells.items()} == {
        "base": 8, "eagle3": 4, "eagle3-small-batch": 8,
    }  # fmt: skip
    assert found.pairs.empty
    assert "number of GPUs is 4 here and 8 there" in why[cells["eagle3"]["cell_id"]]
    assert why[cells["eagle3-small-batch"]["cell_id"]].endswith(
        "server_args.chunked-prefill-size is 2048 here and 8192 there; "
        "server_args.max-running-requests is 16 here and not stated there: compare all the same with "
        "--allow server_args.chunked-prefill-size --allow server_args.max-running-requests"
    )
