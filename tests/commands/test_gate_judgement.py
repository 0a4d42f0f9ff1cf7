"""What a night keeps of its trend, and tells people, is what ``draftboard gate --json`` says."""

import json
from dataclasses import replace
from pathlib import Path

from analysis.nightly.regressions import SeriesDrift
from commands.gate import judge
from nightly.nights import Judgement, identity, judgement_of
from tests.commands.asking import run
from warehouse.filters import Filters


def test_what_a_night_keeps_is_what_the_gate_says(place: Path) -> None:
    found = judgement_of(judge(place, Filters(), None, ()))

    said = json.loads(run("gate", "--json", "--warehouse", str(place)).stdout)
    worse = [row for row in said["series"] if row["status"] == "regression"]
    assert (found.verdict.status, found.verdict.regressions) == (said["status"], len(worse))
    assert found.verdict.series == len(said["series"])
    assert [one.improvement for one in found.regressions] == sorted(
        row["improvement"] for row in worse
    )
    assert {identity(one): (one.line, one.since, one.before) for one in found.regressions} == {
        json.dumps(
            [row["about"], row["metric"], row["statistic"], *(["gain"] if row["gain"] else [])],
            sort_keys=True,
        ): (row["line"], row["first_bad"], row["last_before"])
        for row in worse
    }
    assert Judgement.model_validate_json(found.model_dump_json()) == found


def test_a_drift_downwards_is_kept_and_one_upwards_is_not(place: Path) -> None:
    trend = judge(place, Filters(), None, ())
    for total, kept in ((-0.03, 1), (0.02, 0)):
        drift = SeriesDrift("2026-01-03", total / 20, total)
        found = judgement_of(replace(trend, lines=(replace(trend.lines[0], drift=drift),)))
        assert len(found.drifts) == kept
