"""What is measured already: good cells are never run again, a changed study says which it loses.

A cell is good if what was measured is what the study asks for now; what was set aside and fits
again is brought back.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runners.measuring.launch import Failed
from runners.measuring.layout import RECORD, Layout
from runners.measuring.software import Software, differs, of_record
from runners.models.model_files import is_path
from runners.planning.plan import Plan, PlannedCell

# --- What a record was asked, held against what the study asks now: which facts differ.
#
# Records from before these facts were kept are read by what they do say: commands, arguments,
# settings and variables. What a record does not say is not held against it.


_SETTINGS = ("temperature", "top_p", "seed", "max_tokens", "ignore_eos")
_BODY = ("temperature", "top_p", "seed", "ignore_eos")


def differences(
    record: Mapping[str, Any], now: Mapping[str, Any], prompt_set_hash: str | None
) -> list[str]:
    """Return the names of the facts that a record and a planned cell say otherwise.

    Where the hash of the prompts is known it counts, and not the words by which they are found.
    """
    kept = _part(record, "environment").get("asked")
    said = kept if isinstance(kept, dict) else _of_old(record, now)
    names = [name for name in now if name in said and not _same(name, said[name], now[name])]
    hashed = record.get("prompt_set_hash")
    if hashed is None or prompt_set_hash is None:
        return names
    others = [name for name in names if name != "dataset"]
    return others + (["prompts"] if hashed != prompt_set_hash else [])


def _same(name: str, said: Any, now: Any) -> bool:
    """Return whether a fact is the one that was asked; of the window only what the study says
    counts."""
    if name != "window" or not isinstance(said, dict):
        return bool(said == now)
    return all(said.get(key) == value for key, value in now.items())


def _of_old(record: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that an old record knows, in the words of ``now``."""
    words = _part(record, "commands")
    server, load = _words(words.get("vllm")), _words(words.get("guidellm"))
    said: dict[str, Any] = {
        "tensor_parallel_size": record.get("tensor_parallel_size"),
        "prompts": record.get("planned_requests"),
        "concurrency": record.get("concurrency"),
        "environment": _environment(record, now),
        "request": _request(record, load, now),
        "window": _window(load, now),
    }
    said = {name: value for name, value in said.items() if value is not None}
    if "spec_method" in record:
        said["speculative_config"] = record.get("speculative_config")
    if "server_args" in record:
        caching = record.get("prefix_caching")
        known = {} if caching is None else {"enable_prefix_caching": caching}
        said["server_args"] = {**_part(record, "server_args"), **known}
    if record.get("prefix_cache") == "reset":
        said["prefix_cache"] = "reset"  # "kept" also stands where emptying was asked for in vain.
    return said | _names(server, now)


def _names(server: Sequence[str], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return model, revision and tokenizer of the server's command; folders are compared by their
    name."""
    if len(server) < 3:
        return {}
    found = {
        "model": server[2],
        "revision": _after(server, "--revision"),
        "tokenizer": _after(server, "--tokenizer"),
    }
    return {name: _alike(value, now.get(name)) for name, value in found.items()}


def _alike(said: str | None, now: str | None) -> str | None:
    if said is None or now is None or not is_path(now):
        return said
    return now if Path(said).name == Path(now).name else said


def _request(
    record: Mapping[str, Any], load: Sequence[str], now: Mapping[str, Any]
) -> dict[str, Any] | None:
    if "request_format" not in record:
        return None
    said = {name: record.get(name) for name in _SETTINGS} | {"format": record["request_format"]}
    said["ignore_eos"] = bool(said["ignore_eos"])
    body = next((_part(_part(each, "extras"), "body") for each in _objects(load)
                 if "extras" in each), None)  # fmt: skip
    said["extra_body"] = (
        _part(now, "request").get("extra_body")
        if body is None
        else {name: value for name, value in body.items() if name not in _BODY}
    )
    return said


def _window(load: Sequence[str], now: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the shares left out at the two ends; the number of warm-up requests was not written
    down."""
    if not load:
        return None
    profile = next((each for each in _objects(load) if "streams" in each), None)
    ends = {}
    for name, option in (("warm_up", "warmup"), ("cool_down", "cooldown")):
        phase = _object(_after(load, f"--{option}")) if profile is None else profile.get(option)
        ends[name] = phase.get("percent", 0.0) if isinstance(phase, dict) else 0.0
    return {**_part(now, "window"), **ends}


def _environment(record: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a record's values of the variables that the study sets now; others may be the
    machine's."""
    there = _part(record, "environment").get("variables")
    if not isinstance(there, dict):
        return None
    return {name: there.get(name) for name in _part(now, "environment")}


def _objects(words: Sequence[str]) -> list[dict[str, Any]]:
    return [found for word in words if (found := _object(word))]


def _object(word: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(word) if word is not None and word.startswith("{") else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _after(words: Sequence[str], option: str) -> str | None:
    place = words.index(option) + 1 if option in words else len(words)
    return words[place] if place < len(words) else None


def _words(said: Any) -> list[str]:
    return [str(word) for word in said] if isinstance(said, list) else []


def _part(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = said.get(name)
    return part if isinstance(part, dict) else {}


# --- Why cells are not good, each launch once, and what to do about it.


_AGAIN = "the same command then tries only what is missing"


def reasons(plan: Plan, failed: Sequence[Failed]) -> list[str]:
    """Return why cells are not good; a launch whose server did not come up is one reason, however
    many cells it has."""
    launch_of = {cell.key: x.launch_id for x in plan.launches for cell in x.cells}
    named = (
        (launch_of.get(one.cell.key, one.cell.key) if one.no_server else one.cell.key, one)
        for one in failed
    )
    return list(dict.fromkeys(f"{name}: {one.problem.sentence}" for name, one in named))


def next_step(plan: Plan, failed: Sequence[Failed], layout: Layout, study: Path) -> str:
    """Say in one sentence what to do after cells failed; empty where none did."""
    if not failed:
        return ""
    launch_of = {cell.key: x.launch_id for x in plan.launches for cell in x.cells}
    unstarted = [one for one in failed if one.no_server]
    if unstarted:
        log = layout.server_log(launch_of.get(unstarted[0].cell.key, ""))
        return (
            f"Next: `draftboard doctor {study}` looks for what keeps its server from starting, and "
            f"{log} holds what it printed; {_AGAIN}."
        )
    launch_id = launch_of.get(failed[0].cell.key, "")
    return f"Next: look into {layout.load_log(launch_id)} and {layout.server_log(launch_id)}; {_AGAIN}."


def next_step_elsewhere(launches: Sequence[str], layout: Layout, place: str, study: Path) -> str:
    """Say what to do after launches failed on a cluster; empty where none did."""
    if not launches:
        return ""
    if place in ("slurm", "kubernetes"):
        asked = f"`draftboard cluster logs {study} {launches[0]} --results {layout.results}`"
        return f"Next: {asked} prints what it said; {_AGAIN}."
    return f"Next: look into the logs of {launches[0]} in {layout.root / 'logs'}; {_AGAIN}."


# --- What is measured already: good cells are never run again, a changed study says which it loses.


State = Literal["good", "changed", "failed", "missing"]
#: The hash of a cell's prompts as they are now; None where it cannot be told.
HashOf = Callable[[PlannedCell], str | None]


def unhashed(cell: PlannedCell) -> str | None:
    """Return None as the hash of a cell's prompts, for callers who do not read the datasets:
    prompts are then known by the study's words alone."""
    return None


@dataclass(frozen=True)
class Now:
    """What a cell would be measured with now; what is unknown is not held against a result."""

    software: Software = Software()
    prompts: HashOf = unhashed


@dataclass(frozen=True)
class Found:
    """What the results folder says of one cell."""

    state: State
    folder: Path | None = None
    why: tuple[str, ...] = ()
    """Of a changed cell: the facts that differ."""
    back: Path | None = None
    """A result that was set aside and is good again."""


@dataclass(frozen=True)
class Progress:
    """The cells of a plan by what the results folder holds of them."""

    good: tuple[PlannedCell, ...]
    changed: tuple[PlannedCell, ...]
    """Cells that were measured well, but under a study that said something else of them."""
    failed: tuple[PlannedCell, ...]
    missing: tuple[PlannedCell, ...]
    found: dict[str, Found] = field(default_factory=dict)
    """By the keys of the cells."""

    @property
    def to_run(self) -> tuple[PlannedCell, ...]:
        """All cells but the good ones, in the order of the plan."""
        return tuple(sorted(self.changed + self.failed + self.missing, key=lambda c: c.order))

    @property
    def returning(self) -> tuple[PlannedCell, ...]:
        """Cells that need not be run: what was set aside of them is good again."""
        return tuple(cell for cell in self.to_run if self.found[cell.key].back is not None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The facts in which changed cells differ, each once."""
        said = [name for cell in self.changed for name in self.found[cell.key].why]
        return tuple(dict.fromkeys(said))


def look(
    plan: Plan, layout: Layout, cells: Iterable[PlannedCell] | None = None, now: Now | None = None
) -> Progress:
    """Read the records of a plan's cells, or of some of them."""
    asked = plan.cells if cells is None else tuple(cells)
    found = {cell.key: state(cell, layout, now or Now()) for cell in asked}

    def those(wanted: State) -> tuple[PlannedCell, ...]:
        return tuple(cell for cell in asked if found[cell.key].state == wanted)

    return Progress(those("good"), those("changed"), those("failed"), those("missing"), found)


def state(cell: PlannedCell, layout: Layout, now: Now) -> Found:
    """Return what the results folder says of one cell; results of another software are other
    cells."""
    changed: Found | None = None
    place = layout.cell(cell.key, now.software.name)
    for folder in layout.cells(cell.key):
        record = _record(folder)
        if record is None:
            changed = Found("changed", folder, ("its record cannot be read",))
        elif other := differs(of_record(record), now.software):
            # Of the same version, but e.g. another executable: they cannot lie side by side.
            changed = Found("changed", folder, tuple(other)) if folder == place else changed
        else:
            why = tuple(differences(record, cell.asked, now.prompts(cell)))
            if not why:
                return Found("good", folder)
            changed = Found("changed", folder, why)
    back = _returning(cell, layout, now)
    if changed is not None:
        return Found("changed", changed.folder, changed.why, back)
    return Found("failed" if layout.attempts(cell.key) else "missing", back=back)


def unlike(plan: Plan, layout: Layout, now: Now) -> tuple[str, ...]:
    """Return the facts in which results that lie there differ from what the plan would measure now,
    each once: also those of another software, which lie beside as other cells."""
    said = (why for cell in plan.cells for why in _unlike(cell, layout, now))
    return tuple(dict.fromkeys(said))


def _unlike(cell: PlannedCell, layout: Layout, now: Now) -> Iterator[str]:
    for folder in layout.cells(cell.key):
        if (record := _record(folder)) is not None:
            yield from differs(of_record(record), now.software)
            yield from differences(record, cell.asked, now.prompts(cell))


def _returning(cell: PlannedCell, layout: Layout, now: Now) -> Path | None:
    for folder in layout.set_aside(cell.key):
        record = _record(folder)
        if record is None or differs(of_record(record), now.software):
            continue
        if not differences(record, cell.asked, now.prompts(cell)):
            return folder
    return None


def _record(folder: Path) -> dict[str, Any] | None:
    """Return a good cell's record; None for what is none."""
    try:
        said = json.loads((folder / RECORD).read_bytes())
    except (OSError, ValueError):
        return None  # Something lies there that is no record; it is moved aside, not lost.
    return said if isinstance(said, dict) and said.get("status", "good") == "good" else None


def set_aside(folders: Iterable[Path | None], layout: Layout, replaced: bool = False) -> None:
    """Move results that no longer count out of the way; nothing is deleted.

    ``replaced``: they are measured again though they fit, so they are not brought back.
    """
    for here in folders:
        if here is not None and here.exists():
            there = layout.superseded(here, replaced)
            there.parent.mkdir(parents=True, exist_ok=True)
            here.rename(there)


def bring_back(found: Progress, layout: Layout) -> None:
    """Move results that were set aside and are good again back to their places; what lies there is
    set aside."""
    for cell in found.returning:
        one = found.found[cell.key]
        assert one.back is not None
        set_aside([one.folder], layout)
        inside = one.back.relative_to(layout.root / ".superseded")
        one.back.rename((layout.root / inside).with_name(inside.name.rpartition(".")[0]))
