"""The dashboard as Streamlit starts it: with its own folder first on the path."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What Streamlit does, then what a page imports.
_STARTED = (
    "import sys; sys.path.insert(0, 'dashboard'); "
    "import dashboard, answers; print(answers.__path__[0])"
)


def test_answers_are_those_of_the_product_and_not_of_the_dashboard() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _STARTED.replace("'dashboard'", repr(str(ROOT / "dashboard")))],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert Path(found) == ROOT / "answers"
