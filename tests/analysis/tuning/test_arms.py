"""Groups: a setting, a system, a family; and what stands at each of their load points."""

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.matching.arms import families, load_points, of_family, place_arms

Study = Callable[..., Any]


def family(**facts: Any) -> str | None:
    given = {"spec_method": "eagle3", **facts}
    return families(pd.DataFrame([given]))[0]


def test_a_family_is_a_method_and_its_draft_whatever_its_k() -> None:
    assert family(num_speculative_tokens=2) == family(num_speculative_tokens=5) == "eagle3"
    assert family(draft_model="a") == "eagle3 (a)"
    assert family(draft_model="a", draft_revision="r1") != family(draft_model="a")
    assert family(spec_method="none") == "baseline"
    assert family(spec_method=None) is None


def test_only_what_k_does_not_say_makes_a_config_another_family() -> None:
    def config(**keys: Any) -> str | None:
        known = {"method": "eagle3", "num_speculative_tokens": 3} | keys
        return family(speculative_config=json.dumps(known))

    assert config() == config(num_speculative_tokens=5) == "eagle3"
    assert config(rejection_sample_method="synthetic") != config()
    assert config(num_speculative_tokens_per_batch_size=[[1, 8, 3]]) != config()
    # A draft that only the config names is a draft all the same.
    assert config(model="a") == "eagle3 (a)"
    assert config(model="a") != config(model="b")


def test_datasets_are_settings_of_one_system(study: Study, fake_server: Any) -> None:
    lengths = {"code": (100, 200), "prose": (100, 200)}
    frames = study(ks=(0, 2), loads=(1, 8), server=fake_server(lengths=lengths))
    placed = place_arms(frames.cells)
    assert placed.groupby("dataset")["setting"].nunique().to_dict() == {"code": 1, "prose": 1}
    assert placed["setting"].nunique() == 2
    assert placed["system"].nunique() == 1


@pytest.mark.parametrize("change", [{"gpu": "H100"}, {"tensor_parallel_size": 2}])
def test_other_hardware_is_another_system(study: Study, change: dict[str, Any]) -> None:
    cells = study(ks=(0, 2), loads=(1,)).cells
    other = cells.assign(cell_id=cells["cell_id"] + "x", **change)
    assert place_arms(pd.concat([cells, other]))["system"].nunique() == 2


def test_failed_cells_and_those_of_unknown_k_or_method_are_left_out(study: Study) -> None:
    cells = study(ks=(0, 2), loads=(1, 8)).cells
    cells["status"] = ["failed", "good", "good", "good"]
    assert len(place_arms(cells)) == 3
    assert len(place_arms(cells.assign(num_speculative_tokens=None))) == 1
    assert len(place_arms(cells.assign(spec_method=None))) == 0


def test_a_load_point_is_the_geometric_mean_over_repeats(study: Study) -> None:
    frames = study(ks=(0, 2), loads=(8,), repeats=2)
    rows = frames.measurements["metric"] == "itl"
    frames.measurements.loc[rows, "value"] = [4.0, 9.0, 2.0, 2.0]
    points = load_points(frames.cells, frames.measurements).set_index("k")
    assert points["repeats"].tolist() == [2, 2]
    assert points["itl"].tolist() == pytest.approx([6.0, 2.0])
    # A step takes the ITL times the tokens that it yields; a baseline's yields one.
    length = 1 + 0.75 + 0.75 * 0.7
    assert points["length"].tolist() == pytest.approx([1.0, length], rel=1e-3)
    assert points["step"].tolist() == pytest.approx([6.0, 2.0 * length], rel=1e-3)


def test_a_cell_without_acceptance_or_latency_is_no_load_point(study: Study) -> None:
    frames = study(ks=(0, 2), loads=(8,))
    kept = frames.measurements
    without = kept[kept["metric"] != "mean_acceptance_length"]
    assert load_points(frames.cells, without)["k"].tolist() == [0]
    assert load_points(frames.cells, kept[kept["metric"] != "itl"]).empty


def test_a_family_comes_with_the_baseline_of_its_system(study: Study) -> None:
    one, other = study(ks=(0, 2), loads=(8,)), study(ks=(3,), loads=(8,), method="ngram")
    cells = pd.concat([one.cells, other.cells])
    points = load_points(cells, pd.concat([one.measurements, other.measurements]))
    assert of_family(points, 0, "draft_model (org/draft)")["k"].tolist() == [0, 2]
    assert sorted(of_family(points, 0, "ngram (org/draft)")["k"]) == [0, 3]
