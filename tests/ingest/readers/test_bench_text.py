"""Console texts of ``vllm bench serve`` and SGLang's ``bench_serving``, as people keep them."""

from pathlib import Path
from typing import Any

import pytest

from ingest.discovery import find_units
from ingest.model import Unit
from tests.ingest.readers.reading import cell, cells, load, values, written
from warehouse.errors import InvalidInput

#: As vLLM 0.33 prints it, with what stands before and behind.
VLLM = """\
INFO 11-20 10:00:00 [serve.py:10] Namespace(backend='vllm')
Starting main benchmark run...
Traffic request rate: inf
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: 8
100%|##########| 80/80 [00:12<00:00,  6.25it/s]
============ Serving Benchmark Result ============
Successful requests:                     80        
Failed requests:                         1         
Maximum request concurrency:             8         
Benchmark duration (s):                  12.80     
Total input tokens:                      40960     
Total generated tokens:                  20480     
Request throughput (req/s):              6.25      
Output token throughput (tok/s):         1600.00   
Peak output token throughput (tok/s):    1700.00   
Peak concurrent requests:                9.00      
Total token throughput (tok/s):          4800.00   
---------------Time to First Token----------------
Mean TTFT (ms):                          60.00     
Median TTFT (ms):                        58.00     
P99 TTFT (ms):                           95.00     
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          4.78      
---------------Inter-token Latency----------------
Mean ITL (ms):                           10.80     
----------------End-to-end Latency----------------
P99 E2EL (ms):                           1500.00   
---------------Speculative Decoding---------------
Acceptance rate (%):                     63.50     
Acceptance length:                       2.27      
Drafts:                                  9022      
Draft tokens:                            18044     
Accepted tokens:                         11458     
Per-position acceptance (%):
  Position 0:                            75.00     
  Position 1:                            52.00     
==================================================
Successful requests:                     1
"""
SGLANG = """\
============ Serving Benchmark Result ============
Backend:                                 sglang-oai
Traffic request rate:                    inf
Max request concurrency:                 {at_once}
Successful requests:                     100
Benchmark duration (s):                  50.00
Total input tokens:                      102400
Total input text tokens:                 102400
Total generated tokens:                  25600
Total generated tokens (retokenized):    25500
Request throughput (req/s):              2.00
Input token throughput (tok/s):          2048.00
Output token throughput (tok/s):         512.00
Total token throughput (tok/s):          2560.00
Concurrency:                             15.80
Accept length:                           2.86
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   7900.00
P90 E2E Latency (ms):                    9000.00
---------------Time to First Token----------------
Median TTFT (ms):                        300.00
---------------Inter-Token Latency----------------
Mean ITL (ms):                           29.00
Max ITL (ms):                            90.00
==================================================
"""


@pytest.fixture
def text(tmp_path: Path) -> Any:
    """A file of a text."""

    def write(said: str, name: str = "c8.txt") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said, "utf-8")
        return path

    return write


def test_what_vllm_prints_is_a_result_and_what_it_does_not_is_unknown(text: Any) -> None:
    found = cell(text(VLLM))
    assert values(found, "reported") == pytest.approx({
        ("output_throughput", "mean"): 1600.0, ("total_throughput", "mean"): 4800.0,
        ("request_throughput", "mean"): 6.25, ("ttft", "mean"): 60.0, ("ttft", "p50"): 58.0,
        ("ttft", "p99"): 95.0, ("itl", "mean"): 4.78, ("chunk_gap", "mean"): 10.8,
        ("request_latency", "p99"): 1.5, ("prompt_tokens", "mean"): 512.0,
        ("output_tokens", "mean"): 256.0, ("error_rate", "mean"): 1 / 81,
    })  # fmt: skip
    assert (load(found), found.completed, found.errored, found.duration) == (
        "8 at once", 80, 1, 12.8,
    )  # fmt: skip
    assert (found.facts.engine, found.load_generator) == ("vllm", "vllm-bench")
    (drafts,) = found.acceptance
    assert (drafts.drafts, drafts.draft_tokens, drafts.accepted_tokens) == (9022, 18044, 11458)
    assert (drafts.rate, drafts.mean_length, drafts.by_position) == (0.635, 2.27, (0.75, 0.52))
    assert found.flags == ()


def test_a_text_that_prints_little_says_little(text: Any) -> None:
    said = "\n".join(VLLM.splitlines()[6:8] + ["Median TTFT (ms): 73.14", "Surprise: 4"])
    found = cell(text(said))
    assert values(found, "reported") == {("ttft", "p50"): 73.14}
    assert (load(found), found.facts.engine, found.requests_made) == (None, None, None)
    assert [flag.name for flag in found.flags] == ["not_read", "requests_not_counted"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Traffic request rate: 1.5", "1.5 requests/s (Poisson, at most 8 at once)"),
        ("Traffic ramp-up strategy: linear.", None),
    ],
)
def test_its_load_is_what_is_printed_around_it(text: Any, line: str, shown: str | None) -> None:
    assert load(cell(text(VLLM.replace("Traffic request rate: inf", line)))) == shown


def test_what_sglang_prints_is_a_result(text: Any) -> None:
    found = cell(text(SGLANG.format(at_once=16)))
    told = values(found, "reported")
    assert told["output_throughput", "mean"] == 512.0
    assert told["request_latency", "p90"] == 9.0
    assert told["mean_acceptance_length", "mean"] == 2.86
    # A gap spread over the tokens of its chunk.
    assert ("chunk_gap", "mean") not in told
    assert (load(found), found.facts.engine, found.load_generator) == (
        "16 at once", "sglang", "sglang-bench",
    )  # fmt: skip
    assert load(cell(text(SGLANG.format(at_once="not set")))) == "as fast as it takes them"


def test_each_load_of_a_text_is_a_cell_and_two_of_one_load_are_refused(text: Any) -> None:
    both = "\n".join(SGLANG.format(at_once=n) for n in (1, 16))
    assert [load(one) for one in cells(text(both))] == ["1 at once", "16 at once"]
    with pytest.raises(InvalidInput, match="same load at lines 1 and 26"):
        cells(text(SGLANG.format(at_once=1) * 2))


def test_a_number_that_is_none_is_named_by_its_line(text: Any) -> None:
    said = SGLANG.format(at_once=1).replace("requests:                     100", "requests: many")
    with pytest.raises(
        InvalidInput, match="Line 5 of this file: completed is 'many' where a number"
    ):
        cells(text(said))


def test_a_result_without_any_number_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="prints no throughput and no latency"):
        cells(text("\n".join(VLLM.splitlines()[6:10])))


def test_a_text_in_a_folder_counts_once(text: Any, tmp_path: Path, bench: Any) -> None:
    """The log of a run beside the run's own file would be taken for a second launch."""
    log, other = text(VLLM, "in/run.log"), text(SGLANG.format(at_once=4), "in/other.txt")
    text("numpy==2\n", "in/requirements.txt")
    passed_over: list[Path] = []
    own = written(
        tmp_path / "in/run.json", bench(duration=12.8012, total_output_tokens=20480, completed=80)
    )
    found = [
        one.path for one in find_units([tmp_path / "in"], passed_over) if isinstance(one, Unit)
    ]
    assert (found, passed_over) == ([own, other], [log])
    own.unlink()
    assert len(list(find_units([tmp_path / "in"]))) == 2
