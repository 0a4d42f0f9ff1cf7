"""Where a model's files lie and what they say: a local folder, or the Hugging Face cache.

Reads configuration and tokenizer files and the sizes of the weights, never the weights. Nothing
is downloaded here (``runners/probes/probe_hub.py`` does that, in vLLM's own environment).
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
#: bytes of each end of a large file that go into a local folder's revision
_EDGE = 1 << 20


@dataclass(frozen=True)
class ModelFiles:
    """A model as this machine has it. ``folder`` None: not here, and ``reason`` says why not.

    ``revision`` is the hub's commit; for a local folder a hash over its files, "local:…".
    """

    model: str
    origin: Literal["folder", "cache", "hub", "nowhere"]
    folder: Path | None = None
    revision: str | None = None
    weight_bytes: int | None = None
    reason: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the study names a folder rather than a hub id."""
        return self.origin == "folder" or is_path(self.model)

    @property
    def config(self) -> dict[str, Any] | None:
        """The content of config.json; None where there is none that can be read."""
        return None if self.folder is None else _json(self.folder / "config.json")


def find(model: str, revision: str | None, env: Mapping[str, str]) -> ModelFiles:
    """Return a model's files under the environment that the server will have (HF_HOME,
    HF_HUB_CACHE)."""
    if is_path(model) or Path(model).is_dir():
        return _local(model)
    repository = _repository("models", model, env)
    commit = _commit(repository, revision or "main")
    folder = repository / "snapshots" / (commit or "none")
    if commit is None or not folder.is_dir():
        return ModelFiles(model, "nowhere", reason=f"{model} is not in the cache of this machine")
    return ModelFiles(model, "cache", folder, commit, _weight_bytes(folder))


def commit_here(
    kind: Literal["models", "datasets"], name: str, revision: str | None, env: Mapping[str, str]
) -> str | None:
    """Return the commit of a repository of the hub, as it was last fetched to this machine."""
    return _commit(_repository(kind, name, env), revision or "main")


def _repository(kind: str, name: str, env: Mapping[str, str]) -> Path:
    return hub_cache(env) / f"{kind}--{name.replace('/', '--')}"


def is_path(model: str) -> bool:
    """Return whether a name can only be a folder: a hub id is ``name`` or ``owner/name``."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1


def hub_cache(env: Mapping[str, str]) -> Path:
    """Return the folder in which huggingface_hub keeps repositories, by the variables that it
    reads."""
    merged = {**os.environ, **env}
    if merged.get("HF_HUB_CACHE"):
        return Path(merged["HF_HUB_CACHE"]).expanduser()
    cache = Path(merged.get("XDG_CACHE_HOME") or "~/.cache")
    home = Path(merged.get("HF_HOME") or cache / "huggingface")
    return home.expanduser() / "hub"


def _local(model: str) -> ModelFiles:
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return ModelFiles(model, "nowhere", reason=f"there is no folder {model}")
    if not (folder / "config.json").is_file():
        reason = f"the folder {model} has no config.json"
        return ModelFiles(model, "folder", folder, None, _weight_bytes(folder), reason)
    return ModelFiles(model, "folder", folder, local_revision(folder), _weight_bytes(folder))


def _commit(repository: Path, revision: str) -> str | None:
    """Return the commit that a branch or tag stood for when it was last fetched."""
    if (repository / "snapshots" / revision).is_dir():
        return revision
    try:
        return (repository / "refs" / revision).read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _weight_bytes(folder: Path) -> int | None:
    """Return the bytes of the weight files of the kind that vLLM takes first; None where there are
    none."""
    for pattern in _WEIGHTS:
        sizes = [file.stat().st_size for file in folder.glob(pattern) if file.is_file()]
        if sizes:
            return None if _parts_missing(folder, pattern) else sum(sizes)
    return None


def _parts_missing(folder: Path, pattern: str) -> bool:
    """Return whether the index names weight files that are not here: a download that was cut
    off."""
    index = _json(folder / "model.safetensors.index.json") if pattern == _WEIGHTS[0] else None
    named = set((index or {}).get("weight_map", {}).values())
    return any(not (folder / name).is_file() for name in named)


def local_revision(folder: Path) -> str:
    """Return a name for the content of a folder: names, sizes, and the content or its two ends."""
    digest = hashlib.sha256()
    for file in sorted(_files(folder)):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()}\0{size}\0".encode())
        with file.open("rb") as opened:
            digest.update(opened.read(_EDGE))
            if size > _EDGE:
                opened.seek(-min(_EDGE, size - _EDGE), os.SEEK_END)
                digest.update(opened.read())
    return f"local:{digest.hexdigest()[:16]}"


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that make the model: no hidden files, no notes, no subfolders."""
    for file in folder.iterdir():
        if file.is_file() and not file.name.startswith(".") and file.suffix not in {".md", ".txt"}:
            yield file


def _json(path: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


# --- Tokens and their numbers, read from tokenizer files: a draft speaks to its target in numbers.


#: tokenizer files that are compared as they are, because only their own library reads them
_OPAQUE = ("tokenizer.model", "tekken.json", "tiktoken.model", "vocab.txt", "spiece.model")
_TEMPLATES = ("chat_template.jinja", "chat_template.json")


@dataclass(frozen=True)
class Vocabulary:
    """The number of each token; or, where a file cannot be read here, the hash of that file."""

    ids: dict[str, int] | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Difference:
    """How two vocabularies differ: tokens under other numbers, and tokens that only one of them
    has."""

    renumbered: int
    only_first: int
    only_second: int

    @property
    def is_none(self) -> bool:
        """Whether the two vocabularies are the same."""
        return not (self.renumbered or self.only_first or self.only_second)


def read(folder: Path) -> Vocabulary | None:
    """Read the vocabulary of a model's folder; None where it has no tokenizer of its own."""
    said = _json(folder / "tokenizer.json")
    if said is not None:
        return Vocabulary(
            ids=_listed(said.get("model", {}).get("vocab"))
            | {token["content"]: token["id"] for token in said.get("added_tokens") or []}
        )
    plain = _json(folder / "vocab.json")
    if plain is not None:
        return Vocabulary(ids=_listed(plain) | (_json(folder / "added_tokens.json") or {}))
    for name in _OPAQUE:
        if (folder / name).is_file():
            return Vocabulary(digest=hashlib.sha256((folder / name).read_bytes()).hexdigest())
    return None


def difference(first: Vocabulary, second: Vocabulary) -> Difference | None:
    """Return how two vocabularies differ; None where that cannot be read from the files."""
    if first.ids is not None and second.ids is not None:
        shared = first.ids.keys() & second.ids.keys()
        return Difference(
            renumbered=sum(first.ids[token] != second.ids[token] for token in shared),
            only_first=len(first.ids) - len(shared),
            only_second=len(second.ids) - len(shared),
        )
    same = first.digest is not None and first.digest == second.digest
    return Difference(0, 0, 0) if same else None


def has_chat_template(folder: Path) -> bool:
    """Return whether the tokenizer says how a conversation is written as one text."""
    if any((folder / name).is_file() for name in _TEMPLATES):
        return True
    return bool((_json(folder / "tokenizer_config.json") or {}).get("chat_template"))


def _listed(vocab: Any) -> dict[str, int]:
    """Return token -> number. BPE and WordPiece write {token: id}, Unigram [[token, score], …]."""
    if isinstance(vocab, dict):
        return dict(vocab)
    pairs = vocab if isinstance(vocab, list) else []
    return {str(pair[0]): number for number, pair in enumerate(pairs) if isinstance(pair, list)}
