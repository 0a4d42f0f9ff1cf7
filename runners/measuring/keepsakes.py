"""What a drop keeps beside its measurement, so that the cell can be measured again.

The study as it was, the hashes of its prompts (their texts where that was asked for), vLLM's whole
configuration where it tells it, and what the server printed up to the end of the load. All of it is
made fit for a record first: no credentials, no user names.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.measuring.layout import ENGINE, PROMPTS, SERVER_LOG, STUDY, Layout
from runners.planning.study import Study
from runners.surroundings.tools import public
from runners.texts import prompts
from runners.texts.prompt_files import PromptFile


@dataclass(frozen=True)
class Keep:
    """What every drop of a launch keeps: the study's text, and whether prompts keep their texts."""

    study: str = ""
    texts: bool = False

    @staticmethod
    def of(layout: Layout, texts: bool) -> "Keep":
        """Return the study as the run has just put it beside its results."""
        try:
            return Keep((layout.root / STUDY).read_text(encoding="utf-8"), texts)
        except FileNotFoundError:
            return Keep(texts=texts)


@dataclass(frozen=True)
class Keepsakes:
    """What one attempt keeps beside its measurement."""

    keep: Keep
    study: Study
    prompts: PromptFile
    configuration: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[str] = ()

    def write(self, folder: Path) -> None:
        """Write the keepsakes into the folder of a drop."""
        if self.keep.study:
            (folder / STUDY).write_text(self.keep.study, encoding="utf-8")
        _write_json(self._prompts(), folder / PROMPTS)
        if self.configuration:
            _write_json(public(self.configuration), folder / ENGINE)
        if self.log:
            text = "\n".join(public(list(self.log))) + "\n"
            # No time of packing in it: the same log is the same file.
            (folder / SERVER_LOG).write_bytes(gzip.compress(text.encode(), mtime=0))

    def _prompts(self) -> dict[str, Any]:
        lines = self.prompts.path.read_text(encoding="utf-8").splitlines()
        return {
            "set": self.prompts.hash,
            "prompts": [self._kept(json.loads(line)) for line in lines],
            "warm_up": [self._kept({prompts.PROMPT: text}) for text in self.prompts.warm_up],
        }

    def _kept(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row as the load generator read it, its text as a hash unless texts are kept."""
        style, spoken = self.study.request.format, self.prompts.conversations
        found = prompts.prompt_of(row[prompts.PROMPT], style, conversation=spoken)
        texts = (prompts.PROMPT, prompts.MESSAGES)
        kept = {name: value for name, value in row.items() if name not in texts}
        text = {prompts.PROMPT: found.text} if self.keep.texts else {}
        return {"hash": found.hash} | text | kept


def _write_json(value: Any, path: Path) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
