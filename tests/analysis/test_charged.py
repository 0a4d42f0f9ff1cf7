"""How many GPUs a cost charges: stated, else recorded, else obvious, else unknown."""

from typing import Any

import pytest

from analysis.money.charged import gpus_charged

NAN = float("nan")


@pytest.mark.parametrize(
    ("stated", "keys", "bought", "charged"),
    [
        (3, {"gpu_count": 2, "tensor_parallel_size": 4}, 8, 3),
        (None, {"gpu_count": 2.0, "tensor_parallel_size": 4}, 8, 2),
        (None, {"gpu_count": NAN, "tensor_parallel_size": 4}, 8, 4),
        (None, {"gpu_count": None}, 1, 1),
        (None, {}, 8, None),
    ],
)
def test_the_first_that_is_known_counts(
    stated: int | None, keys: dict[str, Any], bought: int, charged: int | None
) -> None:
    assert gpus_charged(stated, keys, bought) == charged
