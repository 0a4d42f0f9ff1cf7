"""Which cells are of one launch, as results state it."""

import pandas as pd

from analysis.evidence.repeats import _stated


def test_a_launch_s_name_holds_within_one_folder_of_results_and_none_stays_none() -> None:
    rows = pd.DataFrame(
        [
            ("r0-draft", "drop", "/data/monday/mine/draft/c1", "mine/draft/c1#1"),
            ("r0-draft", "drop", "/data/monday/mine/draft/c8", "mine/draft/c8#1"),
            ("r0-draft", "drop", "/data/tuesday/mine/draft/c1", "mine/draft/c1#1"),
            (None, "drop", "/data/monday/mine/draft/c16", "mine/draft/c16#1"),
            ("pod-7", "guidellm", "/data/monday/report.json", "6f2a"),
            ("pod-7", "guidellm", "/data/tuesday/report.json", "6f2a"),
        ],
        columns=["launch", "source_format", "path", "run_id"],
    )
    first, same, other_night, unknown, pod, same_pod = _stated(rows)
    assert first == same != other_night
    assert pd.isna(unknown)
    assert (pod, same_pod) == ("pod-7", "pod-7")
