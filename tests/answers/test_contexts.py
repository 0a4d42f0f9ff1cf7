"""What is told by length of prompt says the same as the decisions that it stands on, and nothing of other loads."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answers.decide.answer import decide
from answers.decide.contexts import SubjectContexts, by_context
from answers.decide.values import DecideQuestion
from tests.commands.asking import run, told
from tests.commands.test_broken_answers import FACTS, PROMPTS, bench
from warehouse.errors import InvalidInput
from warehouse.rows import Measurement
from warehouse.store import Reader, open_writer

#: Tokens of a prompt by dataset; K -> times the baseline's speed there.
LENGTHS = {"code-512t": 512, "code-600t": 600, "code-8192t": 8192}
GAINS: Mapping[str, Mapping[int, float]] = {
    "code-512t": {3: 1.5}, "code-600t": {3: 1.5}, "code-8192t": {3: 0.8},
}  # fmt: skip
RATE: dict[str, Any] = {"load_profile": "constant", "rate": 2.718281828, "concurrency": None}
Fill = Callable[..., Path]


@pytest.fixture
def fill(warehouse_path: Path, make_source: Any, make_cell: Any) -> Fill:
    """``fill(gains, loads)``: a study of the datasets in ``gains``, three launches of the baseline and of each K."""

    def build(
        gains: Mapping[str, Mapping[int, float]] = GAINS,
        loads: tuple[dict[str, Any], ...] = ({"concurrency": 1}, {"concurrency": 8}),
        noise: float = 0.005, seed: int = 7, **facts: Any,
    ) -> Path:  # fmt: skip
        draw = np.random.default_rng(seed)
        ks = (0, *next(iter(gains.values())))
        with open_writer(warehouse_path) as writer:
            for k in ks:
                for launch in range(3):
                    source = make_source(f"{facts}-{k}-{launch}")
                    slow, cells = float(np.exp(noise * draw.standard_normal())), []
                    for dataset, of_k in gains.items():
                        for load in loads:
                            speed = (
                                of_k.get(k, 1.0)
                                * slow
                                * float(np.exp(0.3 * noise * draw.standard_normal()))
                            )
                            values = {"output_throughput": 1000 * speed, "itl": 10 / speed,
                                      "prompt_tokens": float(LENGTHS[dataset])}  # fmt: skip
                            own = {"study": "s", "dataset": dataset, "repeat": launch, "launch": f"{k}-{launch}",
                                   "spec_method": "eagle3" if k else "none", "num_speculative_tokens": k or None}  # fmt: skip
                            cells.append(make_cell(
                                source, len(cells), facts=own | load | facts, flags=(),
                                measurements=tuple(Measurement("canonical", m, "mean", v) for m, v in values.items()),
                            ))  # fmt: skip
                    writer.add(source, iter(cells))
            writer.commit()
        return warehouse_path

    return build


def contexts(path: Path, **asked: Any) -> tuple[SubjectContexts, ...] | str:
    with Reader(path) as reader:
        return by_context(reader, DecideQuestion(**asked))


def only(path: Path, **asked: Any) -> SubjectContexts:
    found = contexts(path, **asked)
    assert not isinstance(found, str), found
    (one,) = found
    return one


def test_a_rate_of_many_digits_is_the_load_that_all_lengths_share(fill: Fill) -> None:
    one = only(fill(loads=(RATE, RATE | {"rate": 1.2345678901})))
    assert one.one.operating.load.value == 2.718281828
    for each in one.contexts:
        assert each.decision.operating.load == one.one.operating.load
        assert "nothing is known" not in each.decision.headline
    assert one.servers == "split"


def test_a_load_is_found_by_the_digits_in_which_it_is_shown(fill: Fill) -> None:
    path = fill(loads=(RATE, RATE | {"rate": 1.2345678901}))
    for text in ("2.71828/s", "2.718281828/s", "1.23457/s"):
        with Reader(path) as reader:
            found = decide(reader, DecideQuestion(load=text)).decisions
        assert all(one.operating.stands_for is None for one in found)
        assert not [one for one in found if "not" in one.headline and "known" in one.headline]


@pytest.mark.parametrize("load", ["1000", "3", "8/s", "1=0.5,8=0.5"])
def test_at_a_load_that_was_not_measured_nothing_is_told_by_length(fill: Fill, load: str) -> None:
    said = contexts(fill(), load=load)
    assert said == (
        f"{load} is no load at which all lengths were measured; these are: 1 and 8 at once."
    )


def test_lengths_of_one_context_are_named_by_its_end(fill: Fill) -> None:
    one = only(fill())
    assert [each.name for each in one.contexts] == ["512 to 600 tokens", "8,192 tokens"]
    assert "Two servers, up to 600 tokens with eagle3 K=3, above without drafts" in one.sentence
    (reach,) = one.arms
    assert reach.sentence == (
        "eagle3 K=3 pays up to 600 tokens, no longer pays from 8,192 tokens on."
    )


def test_an_arm_whose_answers_break_pays_nowhere(tmp_path: Path) -> None:
    root = ("--warehouse", str(tmp_path / "warehouse"))
    for arm, every in (("base", 0), ("mtp", 8)):
        for tokens in (512, 8192):
            place = tmp_path / f"{arm}-{tokens}"
            place.mkdir()
            for launch in range(3):
                says = json.loads(bench(arm, launch, every, 1, 0.02 if arm == "base" else 0.01))
                says |= {"input_lens": [tokens] * PROMPTS, "total_input_tokens": tokens * PROMPTS}
                (place / f"r{launch}.json").write_text(json.dumps(says))
            facts = ("gpu=H100", f"dataset=code-{tokens}t", *FACTS[arm])
            stated = [part for fact in facts for part in ("--set", fact)]
            run("ingest", str(place), *stated, *root)
    (found,) = told("tune", "--by", "context", *root)["subjects"]
    (reach,) = found["arms"]
    assert reach["sentence"] == "mtp K=2 breaks answers up to 8,192 tokens."
    assert (found["arm"], found["servers"]) == ("baseline", "one")


def test_a_split_takes_at_each_length_what_is_decided_there(fill: Fill) -> None:
    """K = 3 is best over all; for short prompts K = 5 looks better, though not surely."""
    gains = {"code-512t": {3: 1.50, 5: 1.512}, "code-8192t": {3: 0.85, 5: 0.75}}
    one = only(fill(gains), mix=(("code-512t", 0.95), ("code-8192t", 0.05)))
    assert one.servers == "split"
    taken = [each.decision.operating for each in one.contexts]
    assert list(one.split) == [x.arm if x.drafts else "baseline" for x in taken]


def test_a_mix_is_told_of_those_that_have_all_of_it(fill: Fill) -> None:
    """Another model was measured on one of the two datasets."""
    mix = (("code-512t", 0.8), ("code-8192t", 0.2))
    fill({name: GAINS[name] for name in ("code-512t", "code-8192t")})
    fill({"code-512t": GAINS["code-512t"]}, model="acme/other")
    path = fill({"code-512t": GAINS["code-512t"]}, model="acme/third")
    assert only(path, mix=mix).one.subject.model != "acme/other"
    with pytest.raises(InvalidInput, match="there are no results of code-9t"):
        contexts(path, mix=(("code-512t", 0.8), ("code-9t", 0.2)))
