import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.frames import FRAMES, declared

_ROOT = Path(__file__).parents[2]
_LINES = pd.DataFrame({"line": ["output"], "at": [0.0], "value": [12.5]})


def test_a_frame_is_handed_on_as_it_is_declared_with_more_columns_or_without_rows() -> None:
    more = _LINES.assign(unit="tok/s")
    empty = pd.DataFrame(columns=list(_LINES))

    assert declared("server lines", more) is more
    assert declared("server lines", empty) is empty


def test_a_frame_without_a_declared_column_or_with_something_else_in_it_is_refused() -> None:
    with pytest.raises(TypeError, match="'server lines' lacks.*: value"):
        declared("server lines", _LINES.drop(columns="value"))
    with pytest.raises(TypeError, match="'server lines' lacks.*: at"):
        declared("server lines", _LINES.assign(at="soon"))


def test_every_declared_frame_is_checked_where_it_is_made() -> None:
    files = [*_ROOT.glob("analysis/**/*.py"), *_ROOT.glob("answers/**/*.py")]
    checked = {
        name
        for file in files
        for name in re.findall(r'declared\(\s*"([^"]+)"', file.read_text(encoding="utf-8"))
    }

    assert checked == set(FRAMES)
