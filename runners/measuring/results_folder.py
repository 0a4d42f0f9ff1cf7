"""The folder of a study's results as this machine has it: writable or not, with the study beside them."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.measuring.layout import STUDY, Layout
from runners.planning.study import Study
from warehouse.errors import RunnerError
from warehouse.secrets.names import is_secret_name
from warehouse.secrets.texts import scrub_text
from warehouse.secrets.words import REMOVED


@contextmanager
def results_writable(layout: Layout) -> Iterator[None]:
    """Turn what fails on this machine's side of the results, a full disk above all, into one
    sentence."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise RunnerError(
                f"The disk that holds {layout.root} is full; nothing good was lost. Make room and "
                "run the same command again, it goes on where it stopped."
            ) from None
        raise RunnerError(f"The results in {layout.root} cannot be written: {error}.") from None


def write_study_copy(study: Study, source: Path, layout: Layout) -> None:
    """Keep the study beside its results, without the credentials that it may hold."""
    text = source.read_text(encoding="utf-8")
    for name, value in study.environment.items():
        if is_secret_name(name):
            text = text.replace(value, REMOVED)
    layout.root.mkdir(parents=True, exist_ok=True)
    (layout.root / STUDY).write_text(scrub_text(text), encoding="utf-8")
