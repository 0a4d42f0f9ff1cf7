"""``draftboard ingest --guess``: what is known of each file, by whom, and what is guessed of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import commonpath
from pathlib import Path
from typing import Any, Literal

from analysis.matching.guess import BASELINE, SOME_METHOD, Guess, together
from analysis.matching.guess_drafts import (
    Named,
    datasets_apart,
    drafts,
    numbers_apart,
    with_words,
    words_apart,
)
from analysis.matching.guess_paths import concurrency, datasets, named, rate, repeat, without_sizes
from warehouse.contract import arm_label
from warehouse.loads import Load, load_of

#: Who says a fact: the report itself, the user, a name, or nobody.
By = Literal["contents", "you", "name", "nobody"]
#: What two files must share, or be known for, to be compared; in this order they are shown.
SHOWN = ("spec_method", "num_speculative_tokens", "draft_model", "dataset", "model", "engine", "gpu",
         "gpu_count", "tensor_parallel_size")  # fmt: skip
#: What else makes two files runs of two servers.
OF_THE_SERVER = ("precision", "prefix_caching", "server_args")
#: What is guessed and shown, though two files need not share it nor is it asked for.
REPEAT = "repeat"
_GUESSED = ("num_speculative_tokens", "gpu", "gpu_count", "tensor_parallel_size", "server_args")
#: What stands for a fact in which the results of one file differ: they say it themselves.
SEVERAL = "several"
_LOAD = ("load_profile", "concurrency", "rate", "trace")
#: What a server was told to draft with, though not by which method.
_DRAFTS = ("speculative_config", "draft_model")
#: Whose reports say nothing of a load: that of their reader is how they run without a limit.
_SAYS_NO_LOAD = ("vllm-throughput",)


@dataclass(frozen=True)
class Found:
    """One fact of a file; ``value`` is None where nobody says it."""

    value: Any
    by: By


@dataclass(frozen=True)
class Guessed:
    """One file: what is known of it, and in ``more`` what was guessed or answered, as ``--set``
    takes it."""

    path: Path
    format: str
    facts: Mapping[str, Found]
    loads: tuple[str, ...]
    load_by: By
    more: dict[str, Any] = field(default_factory=dict)


def guessed(
    rows: Iterable[Mapping[str, Any]], told: Callable[[Path], Mapping[str, Any]]
) -> tuple[Guessed, ...]:
    """Return what is known of each file of some cells, and what its path and the other files add.

    ``rows`` are cells as ``queries.cells`` gives them; ``told``: what the user said of a path.
    """
    files: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        files.setdefault(str(row["path"]), []).append(row)
    below = _below_what_they_share(list(files))
    seen = [_agreed(cells) for cells in files.values()]
    names, contents = _named(list(files), below), list(map(_content, seen, files.values()))
    arms = together(names, contents)
    # A size is no dataset where every report says its model.
    places = list(map(without_sizes, below)) if all(one["model"] for one in seen) else below
    sets = datasets(places, [one.method for one in arms])
    return tuple(
        _file(Path(path), cells, facts, told(Path(path)), _offers(arm, content, dataset, name))
        for (path, cells), facts, arm, content, dataset, name in zip(
            files.items(), seen, arms, contents, sets, below, strict=True
        )
    )


def missing(files: Sequence[Guessed]) -> dict[str, int]:
    """Return the facts that nobody states, and of how many files."""
    counted = Counter(
        key for one in files for key, found in one.facts.items()
        if found.value is None and key != "draft_model" and not _is_of_a_baseline(key, one)
    )  # fmt: skip
    return {key: counted[key] for key in SHOWN if counted[key]}


def stated(one: Guessed, key: str, value: Any, by: By) -> Guessed:
    """Return the file with a fact that somebody else says now; None: nobody does."""
    more = {name: told for name, told in one.more.items() if name != key}
    if value is not None:
        more[key] = value
    return replace(one, facts={**one.facts, key: Found(value, by)}, more=more)


def _is_of_a_baseline(key: str, one: Guessed) -> bool:
    return key == "num_speculative_tokens" and one.facts["spec_method"].value in ("none", None)


def _below_what_they_share(paths: list[str]) -> list[str]:
    """Return the paths without the folders that all of them share; that of a single file is its
    name."""
    if len(paths) == 1:
        return [Path(paths[0]).name]
    shared = Path(commonpath(paths))
    return [str(Path(path).relative_to(shared)) for path in paths]


def _named(paths: list[str], below: list[str]) -> list[Guess]:
    """Guess from the paths without the folders that they share; where none of them says an arm,
    with the last shared folder."""
    names = [named(name) for name in below]
    if any(one.method for one in names):
        return names
    folder = Path(paths[0]).absolute().parents[len(Path(below[0]).parts) - 1].name
    return [named(f"{folder}/{name}") for name in below]


def _agreed(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts that all cells of a file share."""
    return {
        key: cells[0].get(key) if len({repr(cell.get(key)) for cell in cells}) == 1 else None
        for key in (*SHOWN, REPEAT, *OF_THE_SERVER)
    }


def _content(facts: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> Guess:
    drafts = any(cell.get(key) not in (None, "{}") for cell in cells for key in _DRAFTS)
    method = facts["spec_method"] or (SOME_METHOD if drafts else None)
    return Guess(method, facts["num_speculative_tokens"], facts["gpu"], facts["dataset"],
                 facts["tensor_parallel_size"])  # fmt: skip


def _offers(
    arm: Guess, content: Guess, dataset: str | None, path: str
) -> dict[str, tuple[Any, By]]:
    """Return what can be guessed of a file, and from what."""
    said = {key: getattr(arm, key) for key in _GUESSED} | {
        "dataset": dataset, "concurrency": concurrency(path), "rate": rate(path),
        REPEAT: repeat(path),
    }  # fmt: skip
    by: By = "contents" if arm.method == content.method else "name"
    return {key: (value, "name") for key, value in said.items()} | {"spec_method": (arm.method, by)}


def _file(
    path: Path, cells: Sequence[Mapping[str, Any]], facts: Mapping[str, Any],
    told: Mapping[str, Any], offers: Mapping[str, tuple[Any, By]],
) -> Guessed:  # fmt: skip
    found: dict[str, Found] = {}
    more: dict[str, Any] = {}
    for key, known in facts.items():
        offer, by = offers.get(key, (None, "nobody"))
        is_open = all(cell.get(key) is None for cell in cells)
        if is_open and offer is not None:
            found[key], more[key] = Found(offer, by), offer
        else:
            value = known if is_open or known is not None else SEVERAL
            found[key] = Found(value, _who(key, value, told))
    texts, load, load_by = _load(cells, offers)
    return Guessed(path, _kind(cells), found, texts, load_by, more | load)


def _load(
    cells: Sequence[Mapping[str, Any]], offers: Mapping[str, tuple[Any, By]]
) -> tuple[tuple[str, ...], dict[str, Any], By]:
    """Return the loads of a file in words, what its name adds to them, and who says them."""
    stated = [_load_of(cell) for cell in cells]
    offer = {key: offers[key][0] for key in ("concurrency", "rate")
             if offers[key][0] is not None and all(cell.get(key) is None for cell in cells)}  # fmt: skip
    named = [_load_of({**cell, **offer}) for cell in cells]
    if all(map(_is_unsaid, cells, stated)) and None not in named and named != stated:
        return _texts(named), offer, "name"
    texts = _texts(stated)
    return texts, {}, "contents" if texts else "nobody"


def _load_of(cell: Mapping[str, Any]) -> Load | None:
    return load_of(*(cell.get(key) for key in _LOAD))


def _is_unsaid(cell: Mapping[str, Any], load: Load | None) -> bool:
    """Return whether a name may say the load of a cell: that it is unbounded is a load too."""
    return load is None or (load.kind == "unbounded" and _kind([cell]) in _SAYS_NO_LOAD)


def _texts(loads: Iterable[Load | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(load.text for load in loads if load))


def _kind(cells: Sequence[Mapping[str, Any]]) -> str:
    return str(cells[0]["load_generator"])


def _who(key: str, known: Any, told: Mapping[str, Any]) -> By:
    if known is None:
        return "nobody"
    return "you" if told.get(key) is not None else "contents"


# --- Files that ``--guess`` would take for one run, though their names differ: drafts, or repeats.


def told_apart(files: Sequence[Guessed]) -> tuple[Guessed, ...]:
    """Return the files, none taken for a repeat of another dataset or arm: datasets that reports
    name alike and drafts get names of their own."""
    by_reports = [one.facts["dataset"].by == "contents" for one in files]
    words = datasets_apart(list(map(_named_alike, files)), by_reports)
    files = list(map(_with_dataset, files, words))
    return tuple(map(_with_draft, files, drafts(list(map(_named_alike, files)))))


def named_apart(files: Sequence[Guessed]) -> dict[str, tuple[str, ...]]:
    """Return, by arm, the words and numbers that tell names of repeats apart: they may say what
    ran."""
    named = list(map(_named_alike, files))
    words, numbers = words_apart(named), numbers_apart(named)
    return {
        arm_label(*arm): (*words.get(arm, ()), *dict.fromkeys(numbers.get(arm, {}).values()))
        for arm in dict.fromkeys((*words, *numbers))
    }


def _named_alike(one: Guessed) -> Named:
    method, k = (_one_value(one, key) for key in ("spec_method", "num_speculative_tokens"))
    known = tuple(repr(one.facts[key].value) for key in (*SHOWN, *OF_THE_SERVER))
    return Named(str(one.path), method, None if method == BASELINE else k, (known, one.loads))


def _one_value(one: Guessed, key: str) -> Any:
    value = one.facts[key].value
    return None if value == SEVERAL else value


def _with_dataset(one: Guessed, words: str | None) -> Guessed:
    """Return the file with the words of its path beside its dataset; what the user says stays, and
    what the results of one file say."""
    said = one.facts["dataset"]
    if words is None or said.by == "you" or said.value == SEVERAL:
        return one
    return stated(one, "dataset", with_words(said.value, words), "name")


def _with_draft(one: Guessed, draft: str | None) -> Guessed:
    """Return the file with a draft that its path says, where neither contents nor user say one."""
    known = one.facts["draft_model"].value is not None or _one_value(one, "spec_method") is None
    return one if known or draft is None else stated(one, "draft_model", draft, "name")
