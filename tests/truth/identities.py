"""One decision by every face, each sentence against its own table, each serve line against its map.

Random studies are written as the files that runners leave, ingested, and asked for by every door; what
they say is compared with itself, whatever is true.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import draftboard
from answers.decide.answer import decide
from answers.decide.overview import Overview, overviews
from answers.decide.tables import by_load
from answers.decide.values import DecideQuestion, Decision, Decisions
from answers.report import ReportGrid, ReportRequest, report
from dashboard.doors.api import application
from tests.commands.asking import run, told
from tests.dashboard.opening import opened
from tests.truth.random_drops import write_random_study
from tests.truth.random_studies import FamilyName, RandomStudy, random_studies
from tests.truth.row import Row, share
from tests.truth.sentences import RULES
from warehouse.store import Reader

#: Studies of a family that go through files, however many trials the other modules have.
MOST = 5
#: Meets whatever is measured, and so changes nothing.
LAX = "itl:p95<100s"
API = Starlette(routes=[Mount("/api", app=application())])


@dataclass(frozen=True)
class Asked:
    """A study in a warehouse of its own, and the decisions on it."""

    study: RandomStudy
    root: Path
    found: Decisions

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.found.decisions

    def stated(self, one: Decision) -> Decision:
        """The decision on the same traffic with its operating load stated."""
        with Reader(self.root) as reader:
            asked = decide(reader, DecideQuestion(load=_written(one))).decisions
        return next(x for x in asked if x.traffic == one.traffic)


def _written(one: Decision) -> str:
    load = one.operating.load
    return f"{load.value:g}/s" if load.is_rate else f"{load.value:g}"


def families() -> Iterator[FamilyName]:
    yield from ("any", "crossovers", "any, rates")


def rows(trials: int, seed: int = 0) -> list[Row]:
    """All rows of the table."""
    return [row for family in families() for row in rows_of(family, trials, seed)]


def rows_of(family: FamilyName, trials: int, seed: int = 0) -> list[Row]:
    """A row for each identity: the share of decisions or studies of which it holds."""
    kept: dict[str, list[bool]] = {}
    for study in random_studies(family, min(trials, MOST), seed + 1):
        for what, _, holds in checked(study):
            kept.setdefault(what, []).append(holds)
    return [share(family, what, sum(x), len(x), at_least=1.0) for what, x in kept.items()]


def checked(study: RandomStudy) -> Iterator[tuple[str, str, bool]]:
    """What is looked at, what it was looked at on, and whether it is as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "warehouse"
        write_random_study(study, Path(folder) / "results")
        done = run("ingest", str(Path(folder) / "results"), "--warehouse", str(root))
        assert done.exception is None, done.output
        before = os.environ.get("DRAFTBOARD_WAREHOUSE")
        os.environ["DRAFTBOARD_WAREHOUSE"] = str(root)
        try:
            yield from _checked(study, root)
        finally:
            os.environ.pop("DRAFTBOARD_WAREHOUSE")
            if before is not None:
                os.environ["DRAFTBOARD_WAREHOUSE"] = before


def _checked(study: RandomStudy, root: Path) -> Iterator[tuple[str, str, bool]]:
    with Reader(root) as reader:
        asked = Asked(study, root, decide(reader, DecideQuestion()))
    for what, face in FACES.items():
        yield what, study.name, face(asked)
    for one in asked.decisions:
        for what, rule in RULES.items():
            yield what, f"{study.name} {one.traffic.name}", rule(one)
        yield (
            "--load of its load: the same",
            f"{study.name} {one.traffic.name}",
            asked.stated(one) == one,
        )


def _verdict(asked: Asked) -> bool:
    lines = [
        (x["arm"], x["answer"], x["num_speculative_tokens"], x["paragraph"])
        for x in told("verdict")["decisions"]
    ]
    return lines == [
        (x.arm, x.answer, x.num_speculative_tokens, x.paragraph) for x in asked.decisions
    ]


def _lax_slo(asked: Asked) -> bool:
    with Reader(asked.root) as reader:
        found = decide(reader, DecideQuestion(slo=LAX)).decisions
    return [(x.arm, x.answer, x.levels, x.table) for x in found] == [
        (x.arm, x.answer, x.levels, x.table) for x in asked.decisions
    ]


def _tune(asked: Asked) -> bool:
    left, right = told("verdict")["decisions"], told("tune")["decisions"]
    return [{k: v for k, v in x.items() if k not in ("acceptance", "rules")} for x in right] == left


def _cost(asked: Asked) -> bool:
    """The arm, load and saving of the decision; prices differ by that saving."""
    return all(
        (x["arm"], x["load"]) == (one.arm, one.operating.load.as_json())
        and (x["saving"] or {}).get("per_output_token")
        == (one.saving.per_output_token if one.saving else None)
        and ("rafting nothing" not in x["headline"] or one.operating.num_speculative_tokens == 0)
        for x, one in zip(told("cost")["costs"], asked.decisions, strict=True)
    )


def _slo(asked: Asked) -> bool:
    """Every arm that is decided on has its largest load, and no other arm has one."""
    arms = {x["arm_label"] for x in told("slo", LAX, "--no-goodput")["arms"]}
    return {cell.arm for one in asked.decisions for cell in one.arms} | {"baseline"} <= arms


def _report(asked: Asked) -> bool:
    with Reader(asked.root) as reader:
        made = [
            (o, report(reader, ReportRequest(DecideQuestion(), o.name)))
            for o in overviews(asked.decisions)
        ]
    return all(
        (one.headline, one.sections[0].paragraphs) == (overview.headline, (overview.paragraph,))
        and _maps(one.sections[1].grids) == _maps_of(overview)[: len(one.sections[1].grids)]
        for overview, one in made
    )


def _maps(grids: Sequence[ReportGrid]) -> list[list[list[str]]]:
    return [[list(row) for row in grid.rows] for grid in grids]


def _maps_of(overview: Overview) -> list[list[list[str]]]:
    """The load maps in the order of a report, which prints the first of them."""
    order = dict.fromkeys([*overview.leads, *overview.decisions])
    return [[[text or "–" for text in row] for row in by_load(one)[1]] for one in order]


def _python(asked: Asked) -> bool:
    opened_there = draftboard.open(asked.root)
    verdict, cost = told("verdict"), told("cost")
    verdict.pop("changed")
    return opened_there.decide().to_json() == verdict and opened_there.cost().to_json() == cost


def _api(asked: Asked) -> bool:
    client = TestClient(API, raise_server_exceptions=False)
    answers = [
        client.get(f"/api/v1/{x}", params={"subject": "*"}).json() for x in ("decide", "cost")
    ]
    return (answers[0]["decisions"], answers[1]["costs"]) == (
        told("verdict")["decisions"], told("cost")["costs"],
    )  # fmt: skip


def _pages(asked: Asked) -> bool:
    """Decide shows the first decision, with its map and its serve line; Cost what it saves."""
    one = asked.decisions[0]
    overview = overviews(asked.decisions)[0]
    decided = opened(
        "decide", about=overview.name, traffic=overview.place(one), which_k="true", by_load="true"
    )
    tables = [
        [[str(v) for v in row] for row in x.value.to_numpy().tolist()] for x in decided.dataframe
    ]
    cost = opened("cost")
    return (
        _plain(decided.header[0].value).endswith(_plain(one.headline))
        and [[text or "–" for text in row] for row in by_load(one)[1]] in tables
        and (one.serve is None or one.serve in [code.value for code in decided.code])
        and _plain(cost.header[0].value).startswith(
            _plain(told("cost")["costs"][0]["headline"])[:80]
        )
    )


def _plain(text: str) -> str:
    return " ".join(text.replace("\\", "").split())


FACES: dict[str, Callable[[Asked], bool]] = {
    "verdict: the same": _verdict, "a lax SLO: the same": _lax_slo, "tune: the same": _tune,
    "cost: the same": _cost, "slo: the same arms": _slo, "report: the same": _report,
    "Python: the same": _python, "API: the same": _api, "pages: the same": _pages,
}  # fmt: skip
