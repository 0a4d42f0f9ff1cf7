"""GPUs: enough of them, of one kind, free, at full power, and of a CUDA that this vLLM knows."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation
from runners.executors import gpus_needed
from runners.surroundings.machine import NO_BINDING, Gpu
from runners.surroundings.models import gib

CHECK = "GPUs"
#: A power cap lower than this share of the card's own is worth a word.
_FULL_POWER = 0.99


def check(situation: Situation) -> Iterator[Finding]:
    """Check the GPUs by themselves, then against the study and against vLLM's build."""
    if situation.on_gpu is False:
        yield _cpu_build(situation)
        return
    if situation.vllm.torch_hip is not None:
        yield Finding(
            CHECK,
            "unknown",
            f"This vLLM is built for AMD GPUs (ROCm {situation.vllm.torch_hip}), which are not read "
            "here.",
            "Look at rocm-smi: enough GPUs, free, at full power. Records will not name them.",
        )
        return
    yield from _listed(situation)
    yield from _enough(situation)
    yield from _build(situation)
    for gpu in situation.gpus:
        yield from _one(gpu)


def _cpu_build(situation: Situation) -> Finding:
    if situation.gpus:
        return Finding(
            CHECK,
            "warning",
            f"This vLLM is a CPU build and will not use the {_kinds(situation.gpus)} of this machine.",
            "Install vLLM for CUDA, if GPUs are what you want to measure.",
        )
    return Finding(
        CHECK, "ok", "This vLLM is a CPU build: no GPU is needed, and latencies say nothing of one."
    )


def _listed(situation: Situation) -> Iterator[Finding]:
    found = situation.survey
    if situation.gpus:
        about = f"driver {found.driver or 'unknown'}, CUDA up to {found.cuda or 'unknown'}"
        yield Finding(CHECK, "ok", f"{_kinds(situation.gpus)} visible ({about}).")
        if len({gpu.name for gpu in situation.gpus}) > 1:
            yield Finding(
                CHECK,
                "warning",
                "The visible GPUs are of different models, so that cells may not be comparable.",
                "Choose equal ones with CUDA_VISIBLE_DEVICES (and CUDA_DEVICE_ORDER=PCI_BUS_ID).",
            )
    elif found.reason == NO_BINDING:
        yield Finding(
            CHECK,
            "unknown",
            f"{_sentence(found.reason)}.",
            "pip install nvidia-ml-py beside draftboard.",
        )
    elif found.gpus:
        yield Finding(
            CHECK,
            "blocker" if situation.on_gpu else "warning",
            f"CUDA_VISIBLE_DEVICES leaves none of the {_kinds(found.gpus)} visible.",
            "Unset CUDA_VISIBLE_DEVICES or name GPUs that exist.",
        )
    else:
        yield Finding(
            CHECK,
            "blocker" if situation.on_gpu else "unknown",
            f"{_sentence(found.reason or 'no GPU was found')}.",
            "Run this on a machine with a GPU and its driver, or use vLLM's CPU build "
            "(docs/lab.md).",
        )


def _enough(situation: Situation) -> Iterator[Finding]:
    plan = situation.plan
    if plan is None or not situation.gpus:
        return
    needed = max(gpus_needed(plan.study, launch) for launch in plan.launches)
    here = len(situation.gpus)
    if needed > here:
        yield Finding(
            CHECK,
            "blocker",
            f"The study serves on {needed} GPUs at once and {here} {'is' if here == 1 else 'are'} "
            "visible.",
            "Take a larger node, or smaller tensor_parallel_sizes.",
        )


def _build(situation: Situation) -> Iterator[Finding]:
    built, driver = situation.vllm.torch_cuda, situation.survey.cuda
    if built is None or driver is None:
        return
    if int(built.split(".")[0]) > int(driver.split(".")[0]):
        yield Finding(
            CHECK,
            "blocker",
            f"torch was built for CUDA {built}, and the driver knows CUDA up to {driver}.",
            "Install a newer driver, or a vLLM build for the older CUDA.",
        )


def _one(gpu: Gpu) -> Iterator[Finding]:
    name = f"GPU {gpu.index} ({gpu.name})"
    if gpu.processes:
        yield Finding(
            CHECK,
            "warning",
            f"{name} is in use by {gpu.processes} other "
            f"{'process' if gpu.processes == 1 else 'processes'}.",
            "Wait for them or choose another GPU: neighbours spoil the measurement.",
        )
    cap, full = gpu.power_cap_watts, gpu.power_cap_default_watts
    if cap is not None and full is not None and cap < _FULL_POWER * full:
        yield Finding(
            CHECK,
            "warning",
            f"{name} is capped at {cap:.0f} W of {full:.0f} W; the records will say so.",
            "Ask the operator for the full power, or compare with runs under the same cap only.",
        )
    if gpu.mig:
        yield Finding(
            CHECK,
            "warning",
            f"{name} is split by MIG, so that a server gets a part of it.",
            "Use a whole GPU for figures that others can compare with.",
        )


def _kinds(gpus: tuple[Gpu, ...]) -> str:
    """Count the GPUs of each kind: "2 x NVIDIA H200 (139.8 GiB)"."""
    kinds: dict[tuple[str, int | None], int] = {}
    for gpu in gpus:
        key = (gpu.name, gpu.memory_bytes)
        kinds[key] = kinds.get(key, 0) + 1
    return ", ".join(
        f"{count} x {name}" + ("" if size is None else f" ({gib(size)})")
        for (name, size), count in kinds.items()
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
