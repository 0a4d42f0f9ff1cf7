"""Engine and GuideLLM: there, of a release that was tried, and fitting each other and the driver."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation
from runners.measuring.guidellm import NEWEST, OLDEST
from runners.serving.engines import Kind, Tool

CHECK = "executables"
#: The published study's release, which nobody ran here, and the newest that was run here.
OLDEST_VLLM, NEWEST_VLLM = (0, 13), (0, 32)
#: from here on vLLM can put acceptance into each response, and GuideLLM keeps it
_PER_REQUEST = {"vllm": (0, 32), "guidellm": (0, 8)}
#: before this one GuideLLM divided tokens by another time span
_CANONICAL = (0, 7, 4)


def check(situation: Situation) -> Iterator[Finding]:
    """Check each executable by itself, then both together."""
    for tool in (situation.vllm, situation.guidellm):
        yield _present(tool)
    if situation.engine.problem is not None:
        yield Finding(
            CHECK,
            "blocker",
            f"vLLM cannot be imported: {situation.engine.problem}",
            "Run the vllm executable by hand with --version and mend its environment.",
        )
    if situation.vllm.kind == "vllm":
        yield from _old_or_new(situation)
        yield from _together(situation)


def _present(tool: Tool) -> Finding:
    if tool.path is None:
        return Finding(CHECK, "blocker", f"{_NAMES[tool.kind]}: {tool.problem}.", _install(tool))
    if tool.version is None:
        reason = tool.problem or f"the environment of {tool.path} has no package {tool.kind}"
        return Finding(
            CHECK,
            "unknown" if tool.python is None else "blocker",
            f"{_NAMES[tool.kind]} is {tool.path}, of unknown version: {reason.rstrip('.')}.",
            _install(tool),
        )
    python = "" if tool.python_version is None else f", Python {tool.python_version}"
    torch = tool.versions.get("torch") if tool.kind == "vllm" else None
    more = "" if torch is None else f", torch {torch}"
    said = f"{_NAMES[tool.kind]} {tool.version} is {tool.path}{python}{more}."
    return Finding(CHECK, "ok", said)


_NAMES: dict[Kind, str] = {
    "vllm": "vLLM", "sglang": "SGLang", "llama_server": "llama.cpp", "guidellm": "GuideLLM",
}  # fmt: skip


def _install(tool: Tool) -> str:
    if tool.kind in ("sglang", "llama_server"):
        return f"Install it and name its executable under executables.{tool.kind} of the study."
    return (
        f"Make an environment for it (python3 -m venv NAME, NAME/bin/pip install "
        f"'draftboard[{tool.kind}]') and name NAME/bin/{tool.kind} under executables.{tool.kind} "
        "of the study, or put it on the PATH."
    )


def _old_or_new(situation: Situation) -> Iterator[Finding]:
    vllm, load = numbers(situation.vllm.version), numbers(situation.guidellm.version)
    if load is not None and load < OLDEST:
        yield Finding(
            CHECK,
            "blocker",
            f"GuideLLM {situation.guidellm.version} is older than {_dotted(OLDEST)}, the oldest "
            "that is driven.",
            f"Install one from {_dotted(OLDEST)} to {_dotted(NEWEST)}.",
        )
    if load is not None and load[:2] > NEWEST[:2]:
        yield _untried("GuideLLM", situation.guidellm.version, _dotted(NEWEST))
    if vllm is not None and vllm[:2] > NEWEST_VLLM:
        yield _untried("vLLM", situation.vllm.version, _dotted(NEWEST_VLLM))
    if vllm is not None and vllm[:2] < OLDEST_VLLM:
        yield Finding(
            CHECK,
            "warning",
            f"vLLM {situation.vllm.version} is older than {_dotted(OLDEST_VLLM)}; its arguments "
            "and counters may be others.",
            f"Install vLLM {_dotted(NEWEST_VLLM)}.",
        )


def _untried(name: str, version: str | None, newest: str) -> Finding:
    return Finding(
        CHECK,
        "warning",
        f"{name} {version} is newer than {newest}, the newest that was tried here.",
        "Try a small study first and look whether its cells are good.",
    )


def _together(situation: Situation) -> Iterator[Finding]:
    vllm, load = numbers(situation.vllm.version), numbers(situation.guidellm.version)
    if vllm is None or load is None:
        return
    if vllm[:2] >= _PER_REQUEST["vllm"] and load[:2] >= _PER_REQUEST["guidellm"]:
        how = "acceptance is read from the counters and from each request"
    else:
        how = "acceptance is read from the server's counters alone"
    differs = load < _CANONICAL
    note = (
        ", and the throughput that this GuideLLM prints has another definition than since "
        "0.7.4 (ours is computed from the requests)"
        if differs
        else ""
    )
    yield Finding(
        CHECK,
        "ok",
        f"vLLM {situation.vllm.version} and GuideLLM {situation.guidellm.version} work together: "
        f"{how}{note}.",
    )


def numbers(version: str | None) -> tuple[int, ...] | None:
    """Return a version as numbers, "0.32.0+cpu" as (0, 32, 0); None for what is no release
    number."""
    parts = (version or "").partition("+")[0].split(".")[:3]
    digits = [
        "".join(c for c in part if c.isdigit()) if i else part for i, part in enumerate(parts)
    ]
    return (
        tuple(int(d) for d in digits) if len(digits) > 1 and all(map(str.isdigit, digits)) else None
    )


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
