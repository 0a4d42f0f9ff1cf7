"""``cost``, ``slo``, ``pareto`` and ``claims`` as a user runs them: on the recorded runs."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.commands.asking import refused, run, told
from warehouse import queries
from warehouse.errors import DraftboardError, InvalidInput, UnknownKey, WarehouseMissing
from warehouse.filters import Filters
from warehouse.rows import Acceptance, Cell, Measurement, Sample, Source
from warehouse.store import Reader, open_writer

EXAMPLES = Path(__file__).parents[2] / "examples"
STUDY = EXAMPLES / "claims" / "published-study.yaml"
PRICE = ("--usd-per-hour", "3.6")


@pytest.mark.parametrize(("gpus", "usd"), [("8", 4.41), ("1", 0.551)])
def test_a_throughput_and_a_price_need_no_warehouse(gpus: str, usd: float) -> None:
    found = told(
        "cost", "--output-throughput", "2620.89", "--usd-per-hour", "41.62",
        "--gpus-per-instance", "8", "--gpus-used", gpus, "--warehouse", "/nowhere",
    )  # fmt: skip

    assert found["usd_per_million_output_tokens"] == pytest.approx(usd, abs=0.005)
    assert found["basis"]["gpus_used"] == int(gpus)
    assert "41.62 USD/h for 8 GPUs" in found["basis"]["sentence"]


def test_a_listed_price_names_its_source(tmp_path: Path) -> None:
    own = tmp_path / "prices.csv"
    own.write_text("name,gpu,usd_per_hour,date,source\nours,H200,2.5,2026-11,contract 7\n")

    listed = told("cost", "--list-prices", "--prices", str(own))["prices"]
    found = told(
        "cost", "--output-throughput", "1000", "--price", "ours", "--prices", str(own),
        "--total-throughput", "5000", "--tokens-per-day", "864000000",
    )  # fmt: skip

    assert listed[0]["name"] == "ours"
    assert found["usd_per_million_output_tokens"] == pytest.approx(2.5 / 3.6)
    assert found["usd_per_million_input_tokens"] == pytest.approx(2.5 / 3.6 / 4)
    assert "contract 7" in found["basis"]["price_source"]
    assert found["fleet"]["replicas"] == 10
    assert found["fleet"]["busy"] == pytest.approx(1.0)
    assert "aws p5en.48xlarge" in run("cost", "--list-prices").output


def test_a_cost_is_the_decision_s_at_its_operating_load(recorded: tuple[str, ...]) -> None:
    found = told("cost", *PRICE, *recorded, "--dataset", "code")
    (decided,) = told("verdict", *recorded, "--dataset", "code")["decisions"]

    (row,) = found["costs"]
    assert row["load"] == decided["operating_load"] == {
        "kind": "concurrency", "value": 16.0, "name": None
    }  # fmt: skip
    assert (row["arm"], row["saving"]) == (decided["arm"], decided["saving"])
    old, new = row["baseline"], row["speculative"]
    assert old["usd_per_million_output_tokens"] == pytest.approx(1000 / old["output_throughput"])
    ratio = new["usd_per_million_output_tokens"] / old["usd_per_million_output_tokens"]
    assert 1 - ratio == pytest.approx(row["saving"]["per_output_token"])
    # One launch of each arm: nothing is known of the noise, so there is no interval.
    assert (row["saving"]["low"], row["saving"]["word"]) == (None, "open")
    assert row["basis"]["usd_per_hour_charged"] == 3.6
    assert old["joules_per_output_token"] is None
    assert row["headline"] == found["headline"]
    assert {point["load"]["value"] for point in row["loads"]} == {1.0, 4.0, 16.0}


def test_the_reader_s_load_is_costed_and_one_that_was_not_measured_names_those_that_were(
    recorded: tuple[str, ...],
) -> None:
    (at_4,) = told("cost", *PRICE, *recorded, "--dataset", "code", "--load", "4")["costs"]
    between = " ".join(
        run("cost", *PRICE, *recorded, "--dataset", "code", "--load", "7").output.split()
    )
    output = " ".join(run("verdict", *recorded, "--dataset", "code", "--load", "70").output.split())

    assert at_4["load"]["value"] == 4.0
    assert at_4["headline"].startswith("At 4 at once on code, with draft_model K=3: An output")
    assert "At 7 at once (not measured: the figures are those of 16 at once) on code" in between
    assert "nothing is known of 70 at once" in output
    assert "measured: 1, 4 and 16 at once" in output


def test_an_arm_of_the_reader_s_keeps_its_baseline(recorded: tuple[str, ...]) -> None:
    asked = ("--dataset", "code", "--arm", "draft_model K=3")
    (row,) = told("cost", *PRICE, *recorded, *asked)["costs"]

    assert row["arm"] == "draft_model K=3"
    assert row["baseline"]["output_throughput"] > 0


def test_recorded_power_becomes_energy(
    warehouse_path: Path, make_source: Callable[..., Source], make_cell: Callable[..., Cell]
) -> None:
    # 60 s at 1000 and 1500 tok/s, at 500 and 600 W: 0.5 and 0.4 J per token.
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    with open_writer(warehouse_path) as writer:
        for method, scale, watts in (("none", 1.0, 500.0), ("eagle3", 1.5, 600.0)):
            source = make_source(method)
            power = tuple(Sample(start + s, "gpu_power_watts", watts) for s in range(-1, 62))
            facts = {"spec_method": method, "num_speculative_tokens": 3 if scale > 1 else None}
            writer.add(source, [make_cell(source, 0, scale, facts, samples=power)])
        writer.commit()
    where = ("--warehouse", str(warehouse_path))

    (row,) = told("cost", *where)["costs"]
    output = run("cost", *where).output

    assert row["baseline"]["joules_per_output_token"] == pytest.approx(0.5)
    assert row["speculative"]["joules_per_output_token"] == pytest.approx(0.4)
    # The price is the list's for a H200: an eighth of the instance for the one GPU used.
    assert row["basis"]["usd_per_hour_charged"] == pytest.approx(63.296 / 8)
    assert "J per output token" in output
    assert "0.5 → 0.4" in output
    assert row["gain_per_watt"] == pytest.approx(0.25)
    assert row["energy"]["arm"]["watts"] == pytest.approx(600)
    assert row["energy"]["arm"]["samples"] == 63
    assert row["energy"]["baseline"]["joules_of_prefill"] is None


def test_prompts_of_two_lengths_tell_prefill_from_decode(
    warehouse_path: Path, make_source: Callable[..., Source], make_cell: Callable[..., Cell]
) -> None:
    """Made of 0.02 J a prompt token and 0.2 J a step; the arm makes two tokens of a step. What two GPUs take
    tells nothing of one."""
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    counts = Acceptance("counters", 1000, 3000, 1000, 1 / 3, 2.0, ())
    arms = (("none", None, 1.0, ()), ("eagle3", 3, 2.0, (counts,)))
    sizes = (("short", 1000.0, 1, 1.0), ("long", 9000.0, 1, 1.0), ("other", 30000.0, 2, 3.0))
    with open_writer(warehouse_path) as writer:
        for dataset, prompts, size, dearer in sizes:
            for method, k, length, acceptance in arms:
                source = make_source(f"{dataset} {method}")
                watts = dearer * (0.02 * prompts + 0.2 * 1000 / length)
                power = tuple(Sample(start + s, "gpu_power_watts", watts) for s in range(-1, 62))
                facts = {"spec_method": method, "num_speculative_tokens": k, "dataset": dataset,
                         "tensor_parallel_size": size, "gpu_count": size}  # fmt: skip
                rates = (("output_throughput", 1000.0), ("total_throughput", 1000.0 + prompts))
                writer.add(source, [make_cell(
                    source, 0, facts=facts, samples=power, acceptance=acceptance, flags=(),
                    measurements=tuple(Measurement("canonical", n, "mean", v) for n, v in rates),
                )])  # fmt: skip
        writer.commit()

    rows = told("cost", "--warehouse", str(warehouse_path))["costs"]
    energy = {row["traffic"].get("dataset"): row["energy"] for row in rows}

    for dataset in ("short", "long"):
        for side, decode in (("baseline", 0.2), ("arm", 0.1)):
            assert energy[dataset][side]["joules_of_prefill"] == pytest.approx(0.02)
            assert energy[dataset][side]["joules_of_decode"] == pytest.approx(decode)


def test_the_energy_of_an_h200_is_its_power_over_its_throughput(examples: Path) -> None:
    asked = ("--model", "lab-target-8b", "--dataset", "code", "--warehouse", str(examples))
    (row,) = told("cost", *asked)["costs"]
    # By hand from the drops: 576 W at 13,488 tokens/s, and 465 W at 9,409 with two draft tokens.
    old, new = (row["energy"][side]["joules_per_output_token"] for side in ("baseline", "arm"))
    assert old == pytest.approx(576 / 13_488, rel=0.01)
    assert new == pytest.approx(465 / 9_409, rel=0.01)
    assert row["gain_per_watt"] == pytest.approx(old / new - 1)
    assert row["energy"]["baseline"]["limit_watts"] == 700


def test_the_draft_of_an_h200_leaves_room_for_fewer_requests(examples: Path) -> None:
    asked = ("--model", "lab-target-8b", "--dataset", "code", "--warehouse", str(examples))

    (row,) = told("cost", *asked, "--request-tokens", "8192")["costs"]

    # By hand from the servers' logs: 800,080 and 625,056 tokens over 8,192 a request.
    assert row["memory"]["tokens"] == [800_080, 625_056]
    assert row["memory"]["fit"] == [97, 76]
    assert row["memory"]["why_unknown"] == "throughput was measured with requests of 208 tokens"


def test_who_asks_for_the_room_is_told_that_no_server_told_its_size(
    recorded: tuple[str, ...],
) -> None:
    asked = ("--dataset", "code", "--load", "4", *recorded)
    without, with_length = (
        run("cost", *asked, *more).output for more in ((), ("--request-tokens", "8192"))
    )

    assert "KV cache" not in without
    assert "no server told the size of its KV cache" in " ".join(with_length.split())


def test_under_an_slo_that_nothing_meets_there_the_largest_load_that_does_is_named(
    recorded: tuple[str, ...],
) -> None:
    asked = "ttft:p95<50ms"
    loads = {
        (arm["dataset"], arm["arm_label"]): arm["largest_load"]["value"]
        for arm in told("slo", asked, *recorded)["arms"]
    }
    rows = told("cost", *PRICE, *recorded, "--slo", asked)["costs"]

    assert set(loads.values()) == {4.0}
    assert {row["load"]["value"] for row in rows} == {16.0}
    assert all("nothing is saved" in row["headline"] for row in rows)
    verdict = " ".join(run("verdict", *recorded, "--slo", asked, "--all").output.split())
    assert "the largest load at which something does is 4 at once" in verdict


def test_a_demand_and_an_investment_become_gpus_and_hours(recorded: tuple[str, ...]) -> None:
    demand = ("--tokens-per-day", "1e9", "--peak-to-mean", "2", "--investment", "300")
    output = run("cost", *PRICE, *recorded, *demand).output
    rows = [
        told("cost", *PRICE, *recorded, *demand, "--utilisation", busy)["costs"]
        for busy in ("1", "0.5")
    ]

    assert "1,000,000,000 output tokens a day" in output
    assert "are paid back after" in output
    assert "Basis: 3.60 USD/h for 1 GPU" in output
    assert "Measured on a CPU: this is no price of a GPU's work." in output
    # The peak is paid once: how busy a server is said to be takes no further GPU.
    gpus = [[row["baseline"]["fleet"]["gpus"] for row in each] for each in rows]
    assert gpus[0] == gpus[1]
    assert all(row["baseline"]["fleet"]["busy"] <= 0.5 for row in rows[0])


def test_a_gpu_without_a_price_is_told_in_a_sentence(recorded: tuple[str, ...]) -> None:
    (row,) = told("cost", *recorded, "--dataset", "code")["costs"]
    output = run("cost", *recorded, "--dataset", "code").output

    assert (row["basis"], row["usd_saved_per_year"]) == (None, None)
    assert row["saving"]["per_output_token"] > 0
    assert "No price is known for CPU" in output
    assert "give --usd-per-hour" in output


def test_goodput_is_the_request_rate_where_every_request_is_good(
    recorded: tuple[str, ...],
) -> None:
    arms = told("slo", "ttft:p95<60s", *recorded, "--dataset", "code")["arms"]
    with Reader(Path(recorded[1])) as reader:
        chosen = Filters(dataset=("code",))
        cells = queries.cells(reader, chosen).to_pandas()
        rates = queries.measurements(reader, chosen, ["request_throughput"], ["mean"]).to_pandas()
    known = cells.merge(rates, on="cell_id").set_index(["arm_label", "concurrency"])["value"]

    assert len(known) == sum(len(arm["levels"]) for arm in arms) == 6
    for arm in arms:
        assert arm["largest_load"]["value"] == 16
        for level in arm["levels"]:
            assert level["good_share"] == 1.0
            rate = known[arm["arm_label"], level["load"]["value"]]
            assert level["goodput"] == pytest.approx(rate)


def test_an_slo_says_what_stops_each_arm(recorded: tuple[str, ...]) -> None:
    output = run("slo", "ttft:p95<50ms; itl:p99<10ms", *recorded).output

    assert "SLO: ttft:p95<50ms; itl:p99<10ms" in output
    assert "Up to 4 at once; at 16 at once it misses ttft:p95<50ms (109.7 ms)." in output
    assert output.index("baseline") < output.index("draft_model K=3")
    assert "unknown" in run("slo", "ttft:p95<50ms", *recorded, "--no-goodput").output


def test_a_bound_that_was_never_measured_is_said(recorded: tuple[str, ...]) -> None:
    (first, *_) = told("slo", "chunk_gap:p95<5ms", *recorded)["arms"]

    assert first["largest_load"] is None
    assert "at 1 at once it is not measured: chunk_gap:p95<5ms" in first["sentence"]


def test_the_front_holds_no_dominated_point(recorded: tuple[str, ...]) -> None:
    every = told("pareto", *recorded)
    front = told("pareto", *recorded, "--front")

    assert (len(every["points"]), every["left_out"]) == (12, 0)
    assert front["points"] == [point for point in every["points"] if not point["dominated"]]
    assert {point["arm_label"] for point in front["points"]} == {"draft_model K=3"}
    assert "draft_model K=3 TP 1 at 16" in run("pareto", *recorded).output
    said = {(point["precision"], point["comparable_as"]) for point in every["points"]}
    assert said == {("bf16", "canonical")}


def test_the_published_study_is_flagged_in_a_table_and_in_json(recorded: tuple[str, ...]) -> None:
    found = told("claims", str(STUDY), *recorded)
    output = run("claims", str(STUDY), *recorded).output

    assert {"metric", "published", "recomputed", "flagged", "reason"} <= set(found["rows"][0])
    assert found["flagged"] == sum(row["flagged"] for row in found["rows"]) == 11
    assert "the two are swapped" in output
    assert "11 of 51 published figures do not follow from their own row: 4 errors" in output
    assert "Request latency, median" not in output
    assert "Request latency, median" in run("claims", str(STUDY), "--all", *recorded).output


def test_a_claim_about_our_own_runs_stands_beside_them(
    recorded: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "ours.csv"
    file.write_text(
        "dataset,tp,metric,baseline,speculative,published_pct\n"
        "code,1,output_tokens_per_second,674.0,936.3,+38.9%\n"
    )
    (row,) = told("claims", str(file), *recorded)["rows"]

    assert not row["flagged"]
    (measured,) = row["measured"]
    assert measured["improvement"] == pytest.approx(38.9, abs=0.1)
    assert (measured["arm"], measured["evidence"], measured["low"]) == (
        "draft_model K=3", "cpu", None,
    )  # fmt: skip
    assert "measured here: Output throughput" in run("claims", str(file), *recorded).output


def test_claims_need_no_warehouse_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(tmp_path / "none"))

    assert told("claims", str(STUDY))["flagged"] == 11
    error = refused("claims", str(STUDY), "--warehouse", str(tmp_path / "other"))
    assert isinstance(error, WarehouseMissing)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (("cost", "--output-throughput", "9"), InvalidInput, "give --usd-per-hour"),
        (("cost", "--output-throughput", "0", *PRICE), InvalidInput, "rate must be above 0"),
        (("cost", "--output-throughput", "9", *PRICE, "--gpus-per-instance", "8"), InvalidInput,
         "give --gpus-used"),
        (("cost", "--output-throughput", "9", *PRICE, "--gpus-per-instance", "0"), InvalidInput,
         "at least 1"),
        (("cost", "--output-throughput", "9", "--price", "x"), UnknownKey, "no price 'x'"),
        (("cost", "--output-throughput", "9", "--price", "x", *PRICE), InvalidInput, "one of them"),
        (("cost", "--output-throughput", "9", *PRICE, "--utilisation", "60"), InvalidInput, "0.6"),
        (("cost", "--price", "published study", "--gpus-per-instance", "4"), InvalidInput, "both"),
        (("cost", *PRICE, "--mix", "code=1.5,prose=-0.5"), InvalidInput, "--mix"),
        (("cost", *PRICE, "--mix", "code"), InvalidInput, "no share of a dataset"),
        (("cost", *PRICE, "--mix", "code=nan"), InvalidInput, "no share of a dataset"),
        (("cost", "--usd-per-hour", "0"), InvalidInput, "above zero"),
        (("cost", "--usd-per-hour", "nan"), InvalidInput, "above zero"),
        (("cost", *PRICE, "--tokens-per-day", "0"), InvalidInput, "above zero"),
        (("cost", *PRICE, "--tokens-per-day", "9", "--peak-to-mean", "nan"), InvalidInput, "peak"),
        (("cost", *PRICE, "--investment", "-1"), InvalidInput, "investment"),
        (("cost", *PRICE, "--slo", "ttft<5ms"), InvalidInput, "say which"),
        (("cost", "--prices", "/nowhere.yaml", "--list-prices"), InvalidInput, "cannot be read"),
        (("slo", "nonsense"), InvalidInput, "is no bound"),
        (("claims", "/nowhere.yaml"), InvalidInput, "cannot be read: No such file"),
        (("claims", str(EXAMPLES)), InvalidInput, "cannot be read"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(
    recorded: tuple[str, ...], arguments: tuple[str, ...], kind: type[DraftboardError], words: str
) -> None:
    error = refused(*arguments, *recorded)

    assert isinstance(error, kind)
    assert words in str(error)


@pytest.mark.parametrize(
    "arguments", [("slo", "ttft:p95<1s"), ("pareto",), ("cost", *PRICE)], ids=lambda a: a[0]
)
def test_no_match_says_where_to_look(recorded: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    result = run(*arguments, *recorded, "--dataset", "nothing")

    assert result.exit_code == 0, result.output
    assert "draftboard" in result.output


def test_binary_and_huge_claim_files_are_refused(tmp_path: Path) -> None:
    binary, huge = tmp_path / "a.yaml", tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    huge.write_bytes(b"#" * 10_000_001)

    assert "is no text" in str(refused("claims", str(binary)))
    assert "larger than 10 MB" in str(refused("claims", str(huge)))
