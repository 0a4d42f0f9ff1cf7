"""What the machine has: GPUs, cores, ports, disk, and how long it will take."""

import os
import shutil
import socket
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from runners.checks.finding import CheckFinding, Situation
from runners.planning.estimate import Assumed, Node, RecordedDurations, estimate, read_recorded
from runners.planning.plan import Plan, gpus_needed
from runners.surroundings.layout import records_under
from runners.surroundings.machine import NO_BINDING, Gpu, usable_cores
from runners.surroundings.models import GIB, ModelFiles, gib, hub_cache

# --- GPUs: enough of them, of one kind, free, at full power, and of a CUDA that this vLLM knows.


def gpus(situation: Situation) -> Iterator[CheckFinding]:
    """Check the GPUs by themselves, then against the study and against vLLM's build."""
    if situation.on_gpu is False and situation.gpus:
        yield CheckFinding(
            "warning",
            f"This vLLM is a CPU build and will not use the {_kinds(situation.gpus)} of this machine.",
            "Install vLLM for CUDA, if GPUs are what you want to measure.",
        )
    elif situation.on_gpu is False:
        yield CheckFinding(
            "ok", "This vLLM is a CPU build: no GPU is needed, and latencies say nothing of one."
        )
    elif situation.vllm.torch_hip is not None:
        yield CheckFinding(
            "unknown",
            f"This vLLM is built for AMD GPUs (ROCm {situation.vllm.torch_hip}), which are not read "
            "here.",
            "Look at rocm-smi: enough GPUs, free, at full power. Records will not name them.",
        )
    else:
        yield from _listed(situation)
        yield from _enough(situation)
        for gpu in situation.gpus:
            name = f"GPU {gpu.index} ({gpu.name})"
            if gpu.processes:
                yield CheckFinding(
                    "warning",
                    f"{name} is in use by {gpu.processes} other "
                    f"{'process' if gpu.processes == 1 else 'processes'}.",
                    "Wait for them or choose another GPU: neighbours spoil the measurement.",
                )
            cap, full = gpu.power_cap_watts, gpu.power_cap_default_watts
            # A cap is worth a word if it is lower than nearly all of the card's own.
            if cap is not None and full is not None and cap < 0.99 * full:
                yield CheckFinding(
                    "warning",
                    f"{name} is capped at {cap:.0f} W of {full:.0f} W; the records will say so.",
                    "Ask the operator for the full power, or compare with runs under the same cap only.",
                )
            if gpu.mig:
                yield CheckFinding(
                    "warning",
                    f"{name} is split by MIG, so that a server gets a part of it.",
                    "Use a whole GPU for figures that others can compare with.",
                )


def _listed(situation: Situation) -> Iterator[CheckFinding]:
    survey = situation.survey
    if situation.gpus:
        about = f"driver {survey.driver or 'unknown'}, CUDA up to {survey.cuda or 'unknown'}"
        yield CheckFinding("ok", f"{_kinds(situation.gpus)} visible ({about}).")
        if len({gpu.name for gpu in situation.gpus}) > 1:
            yield CheckFinding(
                "warning",
                "The visible GPUs are of different models, so that cells may not be comparable.",
                "Choose equal ones with CUDA_VISIBLE_DEVICES (and CUDA_DEVICE_ORDER=PCI_BUS_ID).",
            )
    elif survey.reason == NO_BINDING:
        yield CheckFinding(
            "unknown",
            f"{survey.reason[:1].upper()}{survey.reason[1:]}.",
            "pip install nvidia-ml-py beside draftboard.",
        )
    elif survey.gpus:
        yield CheckFinding(
            "blocker" if situation.on_gpu else "warning",
            f"CUDA_VISIBLE_DEVICES leaves none of the {_kinds(survey.gpus)} visible.",
            "Unset CUDA_VISIBLE_DEVICES or name GPUs that exist.",
        )
    else:
        reason = survey.reason or "no GPU was found"
        yield CheckFinding(
            "blocker" if situation.on_gpu else "unknown",
            f"{reason[:1].upper()}{reason[1:]}.",
            "Run this on a machine with a GPU and its driver, or use vLLM's CPU build "
            "(docs/lab.md).",
        )


def _enough(situation: Situation) -> Iterator[CheckFinding]:
    plan, here = situation.plan, len(situation.gpus)
    needed = 0
    if plan is not None:
        needed = max((gpus_needed(plan.study, launch) for launch in plan.launches), default=0)
    if needed > here > 0:
        yield CheckFinding(
            "blocker",
            f"The study serves on {needed} GPUs at once and {here} {'is' if here == 1 else 'are'} "
            "visible.",
            "Take a larger node, or smaller tensor_parallel_sizes.",
        )
    built, driver = situation.vllm.torch_cuda, situation.survey.cuda
    if built and driver and int(built.split(".")[0]) > int(driver.split(".")[0]):
        yield CheckFinding(
            "blocker",
            f"torch was built for CUDA {built}, and the driver knows CUDA up to {driver}.",
            "Install a newer driver, or a vLLM build for the older CUDA.",
        )


def _kinds(gpus: tuple[Gpu, ...]) -> str:
    """Count the GPUs of each kind: "2 x NVIDIA H200 (139.8 GiB)"."""
    return ", ".join(
        f"{count} x {name}" + ("" if size is None else f" ({gib(size)})")
        for (name, size), count in Counter((gpu.name, gpu.memory_bytes) for gpu in gpus).items()
    )


# --- Cores: those that a study pins to must be here, and a CPU server that is not pinned is noisy.


def cores(situation: Situation) -> Iterator[CheckFinding]:
    """Compare the cores that the study names with those that this process may use."""
    study = None if situation.plan is None else situation.plan.study
    if study is not None and study.cpus is not None:
        usable = usable_cores()
        missing = sorted({*study.cpus.engine, *study.cpus.client} - usable)
        if missing:
            yield CheckFinding(
                "blocker",
                f"The study names core {', '.join(map(str, missing))}, and this process may use "
                f"{', '.join(map(str, sorted(usable)))}.",
                "Correct cpus in the study, or leave it out.",
            )
        else:
            yield CheckFinding(
                "ok", f"The cores that the study names are among the {len(usable)} usable ones."
            )
    elif study is not None and situation.on_gpu is False:
        yield CheckFinding(
            "warning",
            "The server computes on cores that it shares with its clients: expect repeats to "
            "differ more than with cores of its own.",
            "Name cores for both under cpus, where there are two or more.",
        )


# --- Ports and proxies: the server listens on this machine, and its clients must reach it there.

_HOST = "127.0.0.1"


def ports(situation: Situation) -> Iterator[CheckFinding]:
    """Check for a free port for the server, the ports that the study names, and that no proxy
    stands in between: GuideLLM obeys proxy variables, and its requests would leave the machine."""
    try:
        _bind(0)
    except OSError as error:
        yield CheckFinding(
            "blocker",
            f"No port can be opened on {_HOST}: {error.strerror}.",
            "Allow this user to listen on the loopback interface.",
        )
    else:
        yield CheckFinding("ok", f"A free port on {_HOST} can be opened for the server.")
    # Variables by which vLLM is told ports of its own, beside that of its HTTP server.
    for name, port in {
        name: situation.env.get(name, "") for name in ("VLLM_PORT", "MASTER_PORT")
    }.items():
        try:
            if port.isdigit():
                _bind(int(port))
        except (OSError, OverflowError):
            yield CheckFinding(
                "blocker",
                f"{name} is {port}, and that port is taken.",
                f"Unset {name}, so that vLLM chooses one, or name a free one.",
            )
    proxies = urllib.request.getproxies_environment()
    through = next((proxies[kind] for kind in ("http", "all") if proxies.get(kind)), None)
    if through is not None and not urllib.request.proxy_bypass(_HOST):
        yield CheckFinding(
            "warning",
            f"A proxy is set for http, and {_HOST} is not exempt: the load may go through it.",
            f"Set no_proxy={_HOST},localhost.",
        )


def _bind(port: int) -> None:
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((_HOST, port))


# --- Disk: room for the results, for weights that have yet to come, and for shared memory.

#: Logs, temporary files and vLLM's compile cache, on top of the results.
_SPARE = GIB
_SHARED = Path("/dev/shm")


def disk(situation: Situation) -> Iterator[CheckFinding]:
    """Check each place that a run writes to."""
    plan, folder = situation.plan, _existing(situation.results)
    reports = 0 if plan is None else estimate(plan, RecordedDurations(), Assumed()).disk_bytes
    needed, free = _SPARE + reports, shutil.disk_usage(folder).free
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        yield CheckFinding(
            "blocker",
            f"The results folder {situation.results} cannot be written.",
            "Choose another with --results, or ask for the right to write there.",
        )
    elif free < needed:
        yield CheckFinding(
            "blocker",
            f"{gib(free)} of disk is free at {situation.results}, and a run takes {gib(needed)}.",
            "Make room, or choose another folder with --results.",
        )
    else:
        yield CheckFinding(
            "ok", f"{gib(free)} of disk is free at {situation.results}; {gib(needed)} is enough."
        )
    missing = [m for m in situation.models.values() if m.origin == "hub" and m.weight_bytes]
    if missing and not (plan is not None and plan.study.makes_weights_up):
        needed = sum(model.weight_bytes or 0 for model in missing)
        free = shutil.disk_usage(_existing(hub_cache(situation.env))).free
        names = ", ".join(model.model for model in missing)
        fetched = f"{names} must still be fetched, {gib(needed)}"
        yield (
            CheckFinding(
                "blocker",
                f"{fetched}, and {gib(free)} is free in the cache of the hub.",
                "Make room, or set HF_HOME to a larger disk.",
            )
            if free < needed
            else CheckFinding(
                "warning",
                f"{fetched}; the first server start waits for it.",
                "Run `hf download` for each before the study, or raise limits.server_ready_s.",
            )
        )
    # Workers of one server talk through shared memory, and containers often get 64 MB.
    split = plan is not None and any(launch.tensor_parallel_size > 1 for launch in plan.launches)
    if split and _SHARED.is_dir() and (size := shutil.disk_usage(_SHARED).total) < GIB:
        yield CheckFinding(
            "warning",
            f"{_SHARED} has {gib(size)}, which is little for a server on several GPUs.",
            "Start the container with --ipc=host or --shm-size=8g.",
        )


def duration(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Say how long the study will take here, by results that lie there and by its GPUs."""
    gpus = () if situation.on_gpu is False else situation.gpus
    assumed = Assumed().on_gpu(
        plan, [gpu.name for gpu in gpus],
        lambda *key: situation.models.get(key) or ModelFiles(key[0], "nowhere"),
    )  # fmt: skip
    recorded, node = read_recorded(records_under(situation.results)), Node(len(gpus) or None)
    found = estimate(plan, recorded, assumed, node)
    yield CheckFinding("ok", f"About {found.hours:.1f} h in all ({found.how}).")


def _existing(folder: Path) -> Path:
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())
