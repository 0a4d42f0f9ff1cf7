"""What there is to decide on, named without deciding; alone it is told what it is told among all."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from answers.compare.answer import compare
from answers.compare.subjects import compared, offered
from answers.compare.subjects import compared_subjects as all_compared
from answers.compare.values import CompareQuestion as Compared
from answers.decide.answer import decide, decide_one
from answers.decide.overview import SubjectsQuestion, overviews, subjects
from answers.decide.values import DecideQuestion
from warehouse.filters import Filters
from warehouse.store import Reader, open_writer

Add = Callable[..., None]
BASELINE, EAGLE = ("none", None, 1.0), ("eagle3", 3, 1.3)


@pytest.fixture
def add(warehouse_path: Path, make_source: Any, make_cell: Any) -> Add:
    """``add(study, arms, path, **facts)``: three repeats of the arms at three loads; results stand in
    the order of their paths."""

    def add(
        study: str | None, arms: Sequence[tuple[Any, ...]], path: int = 0, **facts: Any
    ) -> None:
        with open_writer(warehouse_path) as writer:
            for repeat, (method, k, scale) in itertools.product(range(3), arms):
                said = {
                    "study": study, "spec_method": method, "num_speculative_tokens": k,
                    "repeat": repeat, "launch": f"{study}-{method}-{repeat}", **facts,
                }  # fmt: skip
                luck = 1 + ((7 * repeat + len(method)) % 5) / 50
                source = make_source(f"{path} {study} {repeat} {method} {facts}")
                writer.add(source, (make_cell(source, i, scale * luck, said) for i in range(3)))
            writer.commit()

    return add


def same_alone_and_among_all(root: Path, question: DecideQuestion) -> list[str]:
    """Names of the subjects, each of which is told alone what it is told among all."""
    with Reader(root) as reader:
        among = {one.name: one for one in overviews(decide(reader, question).decisions)}
        named = subjects(reader, SubjectsQuestion(question.filters, question.allow))
        alone = {one.name: decide_one(reader, question, one).overview for one in named}
    told = {name: one for name, one in alone.items() if one is not None}
    assert list(told) == list(among)
    assert rounded(tuple(told.values())) == rounded(tuple(among.values()))
    return list(told)


def rounded(value: Any) -> Any:
    """The value with its numbers to ten digits: sums over more rows differ in the last ones."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, tuple):
        return tuple(map(rounded, value))
    if is_dataclass(value):
        return tuple(rounded(getattr(value, field.name)) for field in fields(value))
    return value


def test_a_subject_is_told_alone_what_it_is_told_among_all(warehouse_path: Path, add: Add) -> None:
    add("a", (BASELINE, EAGLE))
    add("b", (BASELINE, EAGLE), model="other/model", dataset="code")
    add("b", (BASELINE, EAGLE), model="other/model", dataset="prose")
    add(None, (BASELINE, EAGLE), gpu="B200")

    assert len(same_alone_and_among_all(warehouse_path, DecideQuestion())) == 3
    same_alone_and_among_all(warehouse_path, DecideQuestion(Filters(dataset=("code",))))
    same_alone_and_among_all(
        warehouse_path, DecideQuestion(objective="latency", slo="ttft:p95<9999ms")
    )


@pytest.mark.parametrize(("dataset", "there"), [("code", "one three"), ("prose", "one two")])
def test_a_filter_changes_neither_the_order_nor_the_names_of_subjects(
    warehouse_path: Path, add: Add, dataset: str, there: str
) -> None:
    # Of the prose alone, the second model stands first.
    for path, (model, about) in enumerate(
        (("one", "code"), ("two", "prose"), ("one", "prose"), ("three", "code"))
    ):
        add("s", (BASELINE, EAGLE), path=path, model=model, dataset=about)
    filters = Filters(dataset=(dataset,))
    with Reader(warehouse_path) as reader:
        for kept, every in (
            (subjects(reader, SubjectsQuestion(filters)), subjects(reader, SubjectsQuestion())),
            (offered(reader, Compared(filters)), offered(reader, Compared())),
        ):
            assert [one.about.model for one in every] == ["one", "two", "three"]
            assert _names(kept) == [
                one.name for one in every if str(one.about.model) in there.split()
            ]


def _names(found: Sequence[Any]) -> list[str]:
    return [one.name for one in found]


def test_its_answer_reads_no_other_study(warehouse_path: Path, add: Add) -> None:
    add("a", (BASELINE, EAGLE))
    add("b", (BASELINE, EAGLE), model="other/model")
    with Reader(warehouse_path) as reader:
        assert [one.filters.study for one in subjects(reader, SubjectsQuestion())] == [
            ("a",),
            ("b",),
        ]


@pytest.mark.parametrize("known", ["0.31.0", None])
def test_partners_in_another_study_are_found(
    warehouse_path: Path, add: Add, known: str | None
) -> None:
    add("drafts", (EAGLE,), engine_version="0.31.0")
    add("plain", (BASELINE,), engine_version=known)

    (name,) = same_alone_and_among_all(warehouse_path, DecideQuestion())
    assert "0.31.0" in name


def test_cells_that_can_have_no_partner_are_a_subject_only_where_somebody_says_why(
    warehouse_path: Path, add: Add
) -> None:
    add("a", (EAGLE,))
    add("b", (BASELINE, EAGLE), model="other/model")
    with Reader(warehouse_path) as reader:
        (one,) = subjects(reader, SubjectsQuestion())
        assert one.about.study == "b"
        last = offered(reader, Compared())[-1]
        assert last.about.study == "a"
        found = compare(reader, Compared(last.filters))
        assert compared(found, last) is None
        assert {cell.reason for cell in found.unmatched} != set()


def test_pairs_that_may_differ_are_sought_everywhere(warehouse_path: Path, add: Add) -> None:
    add("a", (EAGLE,), engine_version="0.31.0")
    add("b", (BASELINE,), engine_version="0.32.0")

    question = DecideQuestion(allow=("engine_version",))
    assert len(same_alone_and_among_all(warehouse_path, question)) == 1


def compared_alone_as_among_all(root: Path, question: Compared) -> int:
    with Reader(root) as reader:
        among = {one.name: one for one in all_compared(compare(reader, question))}
        named = offered(reader, question)
        alone = {
            one.name: compared(compare(reader, Compared(one.filters, *rest(question))), one)
            for one in named
        }
    there = {name: one for name, one in alone.items() if one is not None}
    assert there.keys() == among.keys()
    assert {name: _told(one) for name, one in there.items()} == {
        name: _told(one) for name, one in among.items()
    }
    return len(among)


def _told(one: Any) -> list[Any]:
    """All of a subject but what its settings and arms are called, which is as short as those beside
    allow."""
    nameless = (
        replace(each, name="", arms=tuple(replace(arm, name="") for arm in each.arms))
        for each in one.settings
    )
    return sorted(map(rounded, nameless), key=repr)


def rest(question: Compared) -> tuple[Any, ...]:
    return question.allow, question.reference, question.also


def test_a_subject_is_compared_alone_as_among_all(warehouse_path: Path, add: Add) -> None:
    add("a", (BASELINE, EAGLE))
    add("b", (BASELINE, EAGLE), model="other/model", dataset="code")
    add("b", (BASELINE, EAGLE, ("ngram", 2, 1.1)), model="other/model", dataset="prose")
    add(None, (EAGLE,), gpu="B200")

    assert compared_alone_as_among_all(warehouse_path, Compared()) == 2
    assert compared_alone_as_among_all(warehouse_path, Compared(reference="eagle3 K=3")) == 2


def test_what_was_measured_on_a_gpu_stands_first_wherever_subjects_are_listed(
    warehouse_path: Path, add: Add
) -> None:
    add("a", (BASELINE, EAGLE), 0, evidence="cpu", model="small")
    add("b", (BASELINE, EAGLE), 1, evidence="gpu", model="large")
    names = same_alone_and_among_all(warehouse_path, DecideQuestion())
    assert [name.split(" on ")[0] for name in names] == ["large", "small"]


@pytest.mark.slow
def test_the_examples_are_told_alone_as_among_all(examples: Path) -> None:
    assert len(same_alone_and_among_all(examples, DecideQuestion())) > 1
    assert compared_alone_as_among_all(examples, Compared()) > 1


def test_what_filters_do_not_change_is_found_once(examples: Path) -> None:
    with Reader(examples) as reader:
        for arm in ("draft_model K=2", "draft_model K=3"):
            assert subjects(
                reader, SubjectsQuestion(Filters(model=("lab-target-costly",), arm=(arm,)))
            )
        kept = [one.key for one in reader.kept.recent(60)]
    of_study = f"settings in {[str(('laptop-lab-costly',))]} "
    assert len([key for key in kept if key.startswith(of_study)]) == 1


@pytest.mark.parametrize(
    ("levels", "lead"), [((2,), "code"), ((1, 2), "50 % code + 50 % structured")]
)
def test_a_mix_that_was_measured_at_one_load_alone_does_not_speak_for_a_dataset_at_several(
    warehouse_path: Path, make_source: Any, make_cell: Any, levels: tuple[int, ...], lead: str
) -> None:
    with open_writer(warehouse_path) as writer:
        for repeat, (method, k, scale) in itertools.product(range(3), (BASELINE, EAGLE)):
            for dataset, at in (("code", (0, 1, 2)), ("structured", levels)):
                said = {
                    "study": "s", "dataset": dataset, "spec_method": method, "repeat": repeat,
                    "num_speculative_tokens": k, "launch": f"{method}-{repeat}",
                }  # fmt: skip
                source = make_source(f"{dataset} {repeat} {method}")
                luck = 1 + repeat / 50
                writer.add(source, [make_cell(source, i, scale * luck, said) for i in at])
        writer.commit()
    with Reader(warehouse_path) as reader:
        (overview,) = overviews(decide(reader, DecideQuestion()).decisions)
    (one,) = overview.leads
    assert one.traffic.name == lead
    assert overview.ordered[0] is one
    assert overview.headline.startswith("code: Yes" if lead == "code" else "Yes")
