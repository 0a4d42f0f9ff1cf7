"""A server's samples as lines over seconds: gauges as they are, counters as rates."""

import pandas as pd
import pytest

from analysis.server_series import MOST_POINTS, lines


def samples(**series: list[float]) -> pd.DataFrame:
    """One sample a second from an odd start; names as given."""
    return pd.DataFrame(
        [
            {"at": 1_000.25 + second, "name": name, "value": value}
            for name, values in series.items()
            for second, value in enumerate(values)
        ]
    )


def line(found: pd.DataFrame, name: str) -> pd.DataFrame:
    return found[found["line"] == name].reset_index(drop=True)


def test_gauges_stand_as_sampled_from_the_first_moment_on() -> None:
    running = line(lines(samples(num_requests_running=[1, 2, 3])), "running")

    assert list(running["at"]) == [0, 1, 2]
    assert list(running["value"]) == [1, 2, 3]


def test_names_with_the_servers_prefix_are_the_same() -> None:
    found = lines(samples(**{"vllm:num_requests_waiting": [4.0]}))

    assert list(found["line"]) == ["waiting"]


def test_counters_become_rates_of_what_they_grew_by() -> None:
    found = lines(
        samples(
            generation_tokens=[50.0 * s for s in range(8)],
            spec_decode_num_drafts=[10.0 * s for s in range(8)],
            spec_decode_num_draft_tokens=[30.0 * s for s in range(8)],
            spec_decode_num_accepted_tokens=[18.0 * s for s in range(8)],
        )
    )

    assert line(found, "output")["value"].tolist() == pytest.approx([50.0] * 3)
    assert line(found, "acceptance rate")["value"].tolist() == pytest.approx([0.6] * 3)
    assert line(found, "mean acceptance length")["value"].tolist() == pytest.approx([2.8] * 3)


def test_a_restart_and_a_standstill_make_no_rate() -> None:
    tokens = [100.0, 200.0, 300.0, 400.0, 0.0, 50.0, 50.0, 50.0]
    idle = [0.0] * 8
    found = lines(
        samples(
            generation_tokens=tokens,
            spec_decode_num_draft_tokens=idle,
            spec_decode_num_accepted_tokens=idle,
        )
    )

    assert (line(found, "output")["value"] >= 0).all()
    assert line(found, "acceptance rate").empty


def test_a_falling_gauge_leaves_the_counters_alone() -> None:
    found = lines(
        samples(generation_tokens=[0.0, 1, 2, 3, 4, 5], gpu_power_watts=[9.0, 8, 7, 6, 5, 4])
    )

    assert not line(found, "output").empty


def test_the_machine_is_a_line_and_its_own_moments_leave_the_rates_alone() -> None:
    server = samples(generation_tokens=[50.0 * s for s in range(8)])
    machine = samples(gpu_sm_clock_mhz=[1900.0] * 8).assign(at=lambda rows: rows["at"] + 0.4)
    found = lines(pd.concat([server, machine]))

    assert line(found, "GPU clock")["value"].tolist() == [1900] * 8
    assert line(found, "output")["value"].tolist() == pytest.approx([50.0] * 3)


def test_long_series_are_thinned() -> None:
    found = lines(samples(num_requests_running=[1.0] * 5000))

    assert len(found) <= MOST_POINTS + 1


def test_no_samples_are_no_lines() -> None:
    assert lines(pd.DataFrame({"at": [], "name": [], "value": []})).empty
    assert lines(samples(unheard_of=[1.0])).empty
