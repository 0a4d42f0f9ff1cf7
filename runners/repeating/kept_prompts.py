"""The prompts of a drop once more: its own texts where it kept them, else the dataset's."""

import json
from dataclasses import dataclass
from typing import Any

from runners.measuring.layout import PROMPTS, Layout
from runners.planning.plan import PlannedCell
from runners.repeating.original import Original
from runners.texts import prompts
from runners.texts.prompt_files import PromptFile, PromptFiles, Prompts
from warehouse.errors import RunnerError
from warehouse.prompt_hash import prompt_set_hash


@dataclass(frozen=True)
class KeptPrompts:
    """The rows of one drop, for the one cell that is measured again."""

    rows: tuple[dict[str, Any], ...]
    """As the load generator read them."""
    warm_up: tuple[str, ...]
    hash: str
    layout: Layout
    conversations: bool

    def of(self, cell: PlannedCell) -> PromptFile:
        """Write the prompts in their first order to a file, and return it."""
        path = self.layout.prompts(cell.dataset, cell.load).absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            row | prompts.columns_of(row[prompts.PROMPT], self.conversations) for row in self.rows
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return PromptFile(path, self.hash, self.warm_up, self.conversations)

    def hash_of(self, cell: PlannedCell) -> str | None:
        """Return the hash of the kept texts."""
        return self.hash


def prompts_again(original: Original, cell: PlannedCell, layout: Layout) -> Prompts:
    """Return the prompts with which the cell is asked again. RunnerError where they would be other
    prompts."""
    spoken = original.study.dataset(cell.dataset).conversations
    kept = _kept(original, layout, spoken)
    found: Prompts = kept or PromptFiles(original.study, layout)
    now, then = found.hash_of(cell), original.prompts
    if now is None and kept is None:
        found.of(cell)  # Says which dataset cannot be read, and why.
    if then is not None and now != then:
        raise RunnerError(
            f"{'The kept texts' if kept else f'The dataset {cell.dataset}'} gave other prompts "
            f"({now}) than the cell was measured with ({then}){_then(original)}; what they gave then "
            "has to be put back."
        )
    return found


def _then(original: Original) -> str:
    said = original.record.get("environment", {}).get("dataset")
    origin = said if isinstance(said, dict) else {}
    names = ", ".join(f"{name} {value}" for name, value in origin.items())
    return f", from {names}" if names else ""


def _kept(original: Original, layout: Layout, spoken: bool) -> KeptPrompts | None:
    """Return the texts that a drop kept; None where it kept their hashes alone, or nothing."""
    path = original.drop / PROMPTS
    try:
        said = json.loads(path.read_bytes())
        rows = [
            (
                {prompts.PROMPT: row[prompts.PROMPT]}
                | {
                    name: value
                    for name, value in row.items()
                    if name not in ("hash", prompts.PROMPT)
                }
            )
            for row in said["prompts"]
            if prompts.PROMPT in row
        ]
        warm_up = [row[prompts.PROMPT] for row in said["warm_up"] if prompts.PROMPT in row]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunnerError(f"{path} cannot be read ({error}).") from None
    style = original.study.request.format
    hashes = [prompts.prompt_of(str(row[prompts.PROMPT]), style, spoken).hash for row in rows]
    hashed = prompt_set_hash([*hashes])
    if hashed is None:
        return None
    return KeptPrompts(tuple(rows), tuple(warm_up), hashed, layout, spoken)
