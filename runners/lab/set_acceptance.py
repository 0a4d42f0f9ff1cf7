"""A plugin of vLLM: acceptance that is set by hand on its CPU build, which has it on GPUs alone.

``setup.sh`` puts it beside the lab's vLLM, which loads it in each of its processes. Where nothing is set it
changes nothing. All requests are greedy, as the lab's are.
"""

from itertools import takewhile
from typing import Any

import torch
from vllm.utils import cpu_triton_utils

#: What verifies greedy requests on a CPU: it refuses rates.
_KERNEL = "_rejection_greedy_sample_kernel_impl"


def register() -> None:
    """Let the kernel take drafted tokens as long as chance falls below the rate of their position."""
    standard = getattr(cpu_triton_utils, _KERNEL)

    def verify(*given: Any) -> None:
        answered, ends, *columns, _, most, chances, rates, are_set = given
        if not are_set:
            standard(*given)
            return
        drafted, wanted, bonus = (column.flatten().tolist() for column in columns)
        # A place that holds no draft is never taken.
        luck = [
            1.0 if token < 0 else one for token, one in zip(drafted, chances.tolist(), strict=True)
        ]
        rows, shares, start = [], rates.tolist(), 0
        for end, last in zip(ends.tolist(), bonus, strict=True):
            tried = zip(drafted[start:end], luck[start:end], shares, strict=False)
            taken = [token for token, *_ in takewhile(lambda one: one[1] < one[2], tried)]
            # Then what the model wanted in that place, or after the last draft.
            following = [*wanted[start:end], last][len(taken)]
            rows.append([*taken, following, *[-1] * most][: most + 1])
            start = end
        answered.copy_(torch.tensor(rows))

    setattr(cpu_triton_utils, _KERNEL, verify)
