"""What a run is asked for, and what of it is measured already: good cells are never run again, a
changed study says which it loses.

A cell is good if what was measured is what the study asks for now; what was set aside and fits
again is brought back.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from runners.planning.plan import Launch, Plan, PlannedCell, make_plan
from runners.serving.engines import Software, software_of_record
from runners.surroundings.layout import RECORD, Layout, json_object, part
from runners.surroundings.models import is_path
from runners.texts.prompts import PromptFiles

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

    Where the hash of the prompts is known it counts, and not the words by which they are found. Of
    the window only what the study says counts.
    """
    kept = part(record, "environment").get("asked")
    stated = kept if isinstance(kept, dict) else _facts_of_old(record, now)
    names = []
    for name, wanted in now.items():
        value = stated.get(name, wanted)
        if name == "window" and isinstance(value, dict):
            value = {key: value.get(key) for key in wanted}
        if value != wanted:
            names.append(name)
    hashed = record.get("prompt_set_hash")
    if hashed is None or prompt_set_hash is None:
        return names
    others = [name for name in names if name != "dataset"]
    return others + (["prompts"] if hashed != prompt_set_hash else [])


def _facts_of_old(record: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    # The facts that an old record knows, in the words of ``now``.
    commands = part(record, "commands")
    server, load = (
        [str(word) for word in commands.get(name) or ()] for name in ("vllm", "guidellm")
    )
    objects = [parsed for word in load if (parsed := _object(word))]
    facts: dict[str, Any] = {
        "tensor_parallel_size": record.get("tensor_parallel_size"),
        "prompts": record.get("planned_requests"),
        "concurrency": record.get("concurrency"),
        "request": _request_of_old(record, objects, now),
        "window": _window_of_old(load, objects, now) if load else None,
    }
    variables = part(record, "environment").get("variables")
    if isinstance(variables, dict):
        # Others than the study sets now may be the machine's.
        facts["environment"] = {n: variables.get(n) for n in part(now, "environment")}
    facts = {name: value for name, value in facts.items() if value is not None}
    if "spec_method" in record:
        facts["speculative_config"] = record.get("speculative_config")
    if "server_args" in record:
        caching = record.get("prefix_caching")
        stated = {} if caching is None else {"enable_prefix_caching": caching}
        facts["server_args"] = {**part(record, "server_args"), **stated}
    if record.get("prefix_cache") == "reset":
        facts["prefix_cache"] = "reset"  # "kept" also stands where emptying was asked for in vain.
    if len(server) < 3:
        return facts
    names = {
        "model": server[2],
        "revision": _after(server, "--revision"),
        "tokenizer": _after(server, "--tokenizer"),
    }
    for name, value in names.items():
        wanted = now.get(name)
        if value is not None and wanted is not None and is_path(wanted):
            # Folders are compared by their name.
            value = wanted if Path(value).name == Path(wanted).name else value
        facts[name] = value
    return facts


def _request_of_old(
    record: Mapping[str, Any], objects: Sequence[dict[str, Any]], now: Mapping[str, Any]
) -> dict[str, Any] | None:
    if "request_format" not in record:
        return None
    extras = next((part(each, "extras") for each in objects if "extras" in each), None)
    if extras is None:
        more = part(now, "request").get("extra_body")
    else:
        more = {name: value for name, value in part(extras, "body").items() if name not in _BODY}
    request = {name: record.get(name) for name in _SETTINGS}
    request["ignore_eos"] = bool(request["ignore_eos"])
    return request | {"format": record["request_format"], "extra_body": more}


def _window_of_old(
    load: Sequence[str], objects: Sequence[dict[str, Any]], now: Mapping[str, Any]
) -> dict[str, Any]:
    # The shares left out at the two ends; the number of warm-up requests was not written
    # down.
    profile = next((each for each in objects if "streams" in each), None)
    ends = {}
    for name, option in (("warm_up", "warmup"), ("cool_down", "cooldown")):
        phase = _object(_after(load, f"--{option}")) if profile is None else profile.get(option)
        ends[name] = phase.get("percent", 0.0) if isinstance(phase, dict) else 0.0
    return {**part(now, "window"), **ends}


def _object(word: str | None) -> dict[str, Any] | None:
    try:
        parsed = json.loads(word) if word is not None and word.startswith("{") else None
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _after(words: Sequence[str], option: str) -> str | None:
    return next(
        (word for before, word in zip(words, words[1:], strict=False) if before == option), None
    )


# --- What is measured already: good cells are never run again, a changed study says which it loses.


State = Literal["good", "changed", "failed", "missing"]


@dataclass(frozen=True)
class Now:
    """What a cell would be measured with now; what is unknown is not held against a result."""

    software: Software = Software()
    #: The hash of a cell's prompts as they are now. None where that is not known, as for callers who do
    #: not read the datasets: prompts are then known by the study's words alone.
    prompts: Callable[[PlannedCell], str | None] = lambda cell: None


@dataclass(frozen=True)
class CellState:
    """What the results folder says of one cell. ``why``: the facts in which a changed cell differs;
    ``back``: a result that was set aside and is good again."""

    state: State
    folder: Path | None = None
    why: tuple[str, ...] = ()
    back: Path | None = None


@dataclass(frozen=True)
class PlanState:
    """The cells of a plan by what the results folder holds of them. Changed cells were measured
    well, but under a study that said something else of them."""

    good: tuple[PlannedCell, ...]
    changed: tuple[PlannedCell, ...]
    failed: tuple[PlannedCell, ...]
    missing: tuple[PlannedCell, ...]
    #: By the keys of the cells.
    states: dict[str, CellState] = field(default_factory=dict)

    @property
    def to_run(self) -> tuple[PlannedCell, ...]:
        """All cells but the good ones, in the order of the plan."""
        return tuple(sorted(self.changed + self.failed + self.missing, key=lambda c: c.order))

    @property
    def returning(self) -> tuple[PlannedCell, ...]:
        """Cells that need not be run: what was set aside of them is good again."""
        return tuple(cell for cell in self.to_run if self.states[cell.key].back is not None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The facts in which changed cells differ, each once."""
        return tuple(dict.fromkeys(n for cell in self.changed for n in self.states[cell.key].why))


def look(
    plan: Plan, layout: Layout, cells: Iterable[PlannedCell] | None = None, now: Now | None = None
) -> PlanState:
    """Read the records of a plan's cells, or of some of them."""
    wanted = plan.cells if cells is None else tuple(cells)
    states = {cell.key: _cell_state(cell, layout, now or Now()) for cell in wanted}

    def those(state: State) -> tuple[PlannedCell, ...]:
        return tuple(cell for cell in wanted if states[cell.key].state == state)

    return PlanState(those("good"), those("changed"), those("failed"), those("missing"), states)


def _cell_state(cell: PlannedCell, layout: Layout, now: Now) -> CellState:
    # What the results folder says of one cell; results of another software are other cells.
    changed: CellState | None = None
    for folder in layout.cells(cell.key):
        record = _good_record(folder)
        if record is None:
            changed = CellState("changed", folder, ("its record cannot be read",))
        elif other := software_of_record(record).differs(now.software):
            # Of the same version, but e.g. another executable: they cannot lie side by side.
            if folder == layout.cell(cell.key, now.software.name):
                changed = CellState("changed", folder, tuple(other))
        else:
            why = tuple(differences(record, cell.identity, now.prompts(cell)))
            if not why:
                return CellState("good", folder)
            changed = CellState("changed", folder, why)
    aside = layout.set_aside(cell.key)
    back = next((folder for folder in aside if _unlike(folder, cell, now) == []), None)
    if changed is not None:
        return replace(changed, back=back)
    return CellState("failed" if layout.attempts(cell.key) else "missing", back=back)


def unlike(plan: Plan, layout: Layout, now: Now) -> tuple[str, ...]:
    """Return the facts in which results that lie there differ from what the plan would measure now,
    each once: also those of another software, which lie beside as other cells."""
    lying = ((cell, folder) for cell in plan.cells for folder in layout.cells(cell.key))
    names = (name for cell, folder in lying for name in _unlike(folder, cell, now) or ())
    return tuple(dict.fromkeys(names))


def _unlike(folder: Path, cell: PlannedCell, now: Now) -> list[str] | None:
    # The facts in which a good result differs from what would be measured now; None where
    # there is none.
    record = _good_record(folder)
    if record is None:
        return None
    software = software_of_record(record).differs(now.software)
    return software + differences(record, cell.identity, now.prompts(cell))


def _good_record(folder: Path) -> dict[str, Any] | None:
    # Where something lies that is no record, it is moved aside, not lost.
    record = json_object(folder / RECORD)
    return None if record is None or record.get("status", "good") != "good" else record


def set_aside(folders: Iterable[Path | None], layout: Layout, replaced: bool = False) -> None:
    """Move results that no longer count out of the way; nothing is deleted.

    ``replaced``: they are measured again though they fit, so they are not brought back.
    """
    for here in folders:
        if here is not None and here.exists():
            there = layout.superseded(here, replaced)
            there.parent.mkdir(parents=True, exist_ok=True)
            here.rename(there)


def bring_back(plan_state: PlanState, layout: Layout) -> None:
    """Move results that were set aside and are good again back to their places; what lies there is
    set aside."""
    for cell in plan_state.returning:
        state = plan_state.states[cell.key]
        assert state.back is not None
        set_aside([state.folder], layout)
        inside = state.back.relative_to(layout.root / ".superseded")
        state.back.rename((layout.root / inside).with_name(inside.name.rpartition(".")[0]))


# --- What a run is asked for.


@dataclass(frozen=True)
class StudyRun:
    """What a run is asked for.

    ``software``: what its cells are measured with; ``prompts``: what gives each of them its prompts.
    ``api_key``: of the server at ``target_url``; whoever asks it has called ``use_key``.
    ``keep_texts``: whether each drop keeps the texts of its prompts.
    """

    plan: Plan
    layout: Layout
    cells: tuple[PlannedCell, ...]
    software: Software
    prompts: PromptFiles
    target_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    keep_texts: bool = False

    @property
    def now(self) -> Now:
        """What a cell would be measured with now."""
        return Now(self.software, self.prompts.hash_of)

    def replanned(self) -> "StudyRun":
        """Return the same run with the rates that sweeps found by now."""
        plan = make_plan(self.plan.study, self.layout.results)
        keys = {cell.key for cell in self.cells}
        cells = tuple(cell for cell in plan.cells if cell.key in keys)
        return replace(self, plan=plan, cells=cells)

    def look(self) -> PlanState:
        """Read what the results folder holds of the cells."""
        return look(self.plan, self.layout, self.cells, self.now)

    def missing_launches(self) -> Iterator[Launch]:
        """Yield the launches that have asked cells which are not good, each with those cells."""
        missing = {cell.key for cell in self.look().to_run}
        for launch in self.plan.launches:
            cells = tuple(cell for cell in launch.cells if cell.key in missing)
            if cells:
                yield replace(launch, cells=cells)
