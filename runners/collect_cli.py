"""``draftboard collect``: results of several nodes in one folder."""

import errno
import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
from filelock import FileLock

from runners.measuring.layout import RECORD, Layout, records_under
from warehouse.contract import failed_of
from warehouse.errors import RunnerError
from warehouse.json_text import json_text

# --- Results of several nodes brought into one folder; nothing is overwritten, nothing is guessed.
#
# Each node may write into a folder of its own. Cells are copied whole, under a hidden name first, so
# that a killed collect leaves nothing half; run again it goes on.


#: Of the study as a whole: a node that drew other prompts or ran another study shows here first.
_SHARED = ("study.yaml", "prompts/*.jsonl", "rates/*.rates")
#: What says which prompts a cell was sent: each load of a dataset has prompts of its own.
_LEVEL = ("dataset", "load_profile", "concurrency", "rate", "trace")
_LOGS = "logs/*.log"


@dataclass
class Collected:
    """What was done with everything that was found, by its path under the results folder."""

    copied: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """Results that were there already, byte for byte."""
    conflicts: list[tuple[str, str]] = field(default_factory=list)
    """Results that were left where they are, with the reason."""
    unfinished: list[str] = field(default_factory=list)
    """Cells that were being measured when their node stopped."""


def collect(sources: list[Path], results: Path) -> Collected:
    """Copy the results in ``sources`` (results folders, or folders of one study) into ``results``.

    RunnerError where a source holds no results or cannot be read, or the disk is full.
    """
    found = [(root, Layout(results, root.name)) for source in sources for root in _studies(source)]
    _refuse_itself(sources, results)
    outcome = Collected()
    try:
        for root, layout in found:
            layout.root.mkdir(parents=True, exist_ok=True)
            with FileLock(layout.root / ".collect.lock"):
                _Merge(root, layout, outcome).all()
    except OSError as error:
        raise _failed(error, results) from error
    return outcome


def _failed(error: OSError, results: Path) -> RunnerError:
    if error.errno == errno.ENOSPC:
        return RunnerError(
            f"The disk that holds {results} is full; make room and run the same command again."
        )
    return RunnerError(f"The results cannot be collected: {error}. Run the same command again.")


def _studies(source: Path) -> list[Path]:
    """Return the folders of studies in a source. Raises RunnerError where there are none."""
    if not source.is_dir():
        raise RunnerError(f"There is no folder {source}; name the results folder of a node.")
    source = source.resolve()
    if (source / "study.yaml").is_file():
        return [source]
    found = [
        path for path in sorted(source.iterdir()) if path.is_dir() and any(records_under(path))
    ]
    if not found:
        raise RunnerError(
            f"{source} holds no results: a results folder has a folder for each study, and in it "
            f"folders with a {RECORD}."
        )
    return found


def _refuse_itself(sources: list[Path], results: Path) -> None:
    there = results.resolve()
    for source in sources:
        here = source.resolve()
        if here == there or here.parent == there or here in there.parents or there in here.parents:
            raise RunnerError(
                f"{source} and {results} lie within one another; collect into a folder apart."
            )


@dataclass
class _Merge:
    """Copies one study of one source into the results folder."""

    root: Path
    layout: Layout
    outcome: Collected
    prompt_sets: dict[tuple[Any, ...], tuple[str, str]] = field(default_factory=dict)
    """Dataset and load to the hash of its prompts and the cell that says so."""

    def all(self) -> None:
        """Collect everything that belongs to the study."""
        for record in sorted(records_under(self.layout.root)):
            if self._counts(record.parent, self.layout.root):
                self._note_prompts(record.parent, self.layout.root)
        for record in sorted(records_under(self.root)):
            if self._counts(record.parent, self.root):
                self._cell(record.parent)
        for pattern in _SHARED:
            for path in sorted(self.root.glob(pattern)):
                self._file(path)
        for path in sorted(self.root.glob(_LOGS)):
            self._log(path)
        self.outcome.unfinished += [
            self._name(path) for path in sorted(self.root.rglob(".*.partial")) if path.is_dir()
        ]

    def _counts(self, folder: Path, root: Path) -> bool:
        """Return whether a folder counts: hidden ones are unfinished or superseded and do not."""
        return not any(part.startswith(".") for part in folder.relative_to(root).parts)

    def _name(self, path: Path) -> str:
        return f"{self.layout.study}/{path.relative_to(self.root)}"

    def _cell(self, folder: Path) -> None:
        name, there = self._name(folder), self.layout.root / folder.relative_to(self.root)
        if failed_of(folder.name) is not None:
            self._attempt(folder, there)
        elif there.exists():
            if same(folder, there):
                self.outcome.known.append(name)
            else:
                self._conflict(name, "both measured it; remove the one that shall not count")
        elif (other := self._other_prompts(folder)) is not None:
            self._conflict(name, f"it was measured with other prompts than {other}")
        else:
            copy(folder, there)
            self.outcome.copied.append(name)
            self._note_prompts(there, self.layout.root)

    def _attempt(self, folder: Path, there: Path) -> None:
        """Keep a failed attempt beside those that the other node made."""
        key, _ = failed_of(str(there.relative_to(self.layout.root))) or ("", 0)
        count = self.layout.attempts(key)
        earlier = [self.layout.failed(key, number) for number in range(1, count + 1)]
        if any(path.is_dir() and same(folder, path) for path in earlier):
            self.outcome.known.append(self._name(folder))
            return
        copy(folder, self.layout.failed(key, count + 1))
        self.outcome.copied.append(self._name(folder))

    def _note_prompts(self, folder: Path, root: Path) -> None:
        said = _facts(folder)
        if said is not None:
            level, digest = said
            self.prompt_sets.setdefault(level, (digest, str(folder.relative_to(root))))

    def _other_prompts(self, folder: Path) -> str | None:
        """Return the cell of the same level that is there and was asked other prompts; None without
        one."""
        said = _facts(folder)
        known = None if said is None else self.prompt_sets.get(said[0])
        return known[1] if said and known and known[0] != said[1] else None

    def _file(self, path: Path) -> None:
        there = self.layout.root / path.relative_to(self.root)
        if not there.exists():
            _copy_file(path, there)
        elif digest(path) != digest(there):
            self._conflict(self._name(path), f"it differs from {there}, which stays")

    def _log(self, path: Path) -> None:
        """Keep every log, since several nodes may have started the same launch."""
        there = self.layout.root / path.relative_to(self.root)
        number, base = 1, there
        while there.exists():
            if digest(path) == digest(there):
                return
            number += 1
            there = base.with_name(f"{base.stem}.{number}{base.suffix}")
        _copy_file(path, there)

    def _conflict(self, name: str, why: str) -> None:
        self.outcome.conflicts.append((name, why))


def _facts(folder: Path) -> tuple[tuple[Any, ...], str] | None:
    """Return dataset and load of a cell with the hash of its prompts; None where it does not
    say."""
    try:
        said = json.loads((folder / RECORD).read_bytes())
        digest_said = said.get("prompt_set_hash")
    except (OSError, ValueError, AttributeError):
        return None
    if not isinstance(digest_said, str):
        return None
    return tuple(said.get(name) for name in _LEVEL), digest_said


def _files(folder: Path) -> list[Path]:
    """Return the plain files of a cell; a link could lead anywhere."""
    return sorted(p for p in folder.iterdir() if p.is_file() and not p.is_symlink())


def same(one: Path, other: Path) -> bool:
    """Return whether two cells hold the same files, byte for byte."""
    ours, theirs = _files(one), _files(other)
    if [(p.name, p.stat().st_size) for p in ours] != [(p.name, p.stat().st_size) for p in theirs]:
        return False
    return all(digest(a) == digest(b) for a, b in zip(ours, theirs, strict=True))


def digest(path: Path) -> str:
    """Return sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy(folder: Path, there: Path) -> None:
    """Copy a cell; under its own name it is there whole or not at all."""
    # Not the name under which a run measures: one may be at work in the folder.
    partial = there.with_name(f".{there.name}.copying")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for path in _files(folder):
        shutil.copy2(path, partial / path.name)
    partial.rename(there)


def _copy_file(path: Path, there: Path) -> None:
    there.parent.mkdir(parents=True, exist_ok=True)
    partial = there.with_name(f".{there.name}.copying")
    shutil.copy2(path, partial)
    partial.replace(there)


# --- ``draftboard collect``: results of several nodes in one folder.


@click.command("collect")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder that they are copied into.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def collect_command(
    ctx: click.Context, sources: tuple[Path, ...], results: Path, as_json: bool
) -> None:
    """Copy the results of several nodes (SOURCES) into one folder; run again, it goes on.

    Nothing is overwritten: what both sides measured differently is named, and the exit status is 1.

    Example: draftboard collect from-node1 from-node2 --results results
    """
    outcome = collect(list(sources), results)
    if as_json:
        click.echo(json_text(asdict(outcome)))
    else:
        click.echo(
            f"{len(outcome.copied)} cells copied to {results}, {len(outcome.known)} there already"
        )
        if outcome.unfinished:
            click.echo(
                f"{len(outcome.unfinished)} unfinished cells left out; run the study to finish it"
            )
        for name, why in outcome.conflicts:
            click.echo(f"not taken: {name}: {why}", err=True)
    ctx.exit(1 if outcome.conflicts else 0)
