"""The engines that can be measured: how each is started, and what it says of itself."""

from dataclasses import replace

from runners.planning.study import Study
from runners.serving.agreement import Said, read, resolved
from runners.serving.engines import llama_cpp, openai_compatible, sglang, vllm
from runners.serving.engines.engine import Engine
from warehouse.contract import engine_in

#: By the name that a study gives it.
ENGINES: dict[str, Engine] = {
    one.name: one for one in (vllm.ENGINE, sglang.ENGINE, llama_cpp.ENGINE)
}
_BY_SERIES = {"vllm": vllm.said, "sglang": sglang.said, "llamacpp": llama_cpp.said}


def engine_of(study: Study) -> Engine:
    """Return the engine that a study starts."""
    return ENGINES[study.engine]


def glance(url: str) -> Said:
    """Return what a server shows of itself, whichever engine it is; what it does not say stays
    unknown."""
    metrics = read(f"{url}/metrics") or ""
    told = _BY_SERIES.get(engine_in(metrics) or "", openai_compatible.said)
    return told(url, metrics)


def listen(url: str) -> Said:
    """Return what ``glance`` does, with vLLM's configuration, which takes it seconds to tell."""
    said = glance(url)
    return said if said.engine != vllm.ENGINE.name else replace(said, resolved=resolved(url))
