"""Pages as a reader meets them, on a real warehouse, without a browser."""

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.views import VIEWS
from tests.dashboard.opening import opened
from warehouse.filters import Filters
from warehouse.rows import Rejection
from warehouse.store import open_writer

APP = Path(__file__).parents[2] / "dashboard" / "frame.py"


PATHS = [view.URL_PATH for view in VIEWS]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("path", PATHS)
def test_each_page_renders_with_results(path: str) -> None:
    page = opened(path)

    assert page.header
    assert _shown(page)


def _shown(page: AppTest) -> bool:
    """Whether a page has more than its title: not every answer is a chart."""
    return any(page.get(kind) for kind in ("vega_lite_chart", "arrow_data_frame", "markdown"))


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("path", PATHS)
def test_each_page_says_what_to_do_when_nothing_matches(path: str) -> None:
    page = opened(path, Filters(dataset=("no such dataset",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("path", PATHS)
def test_each_page_takes_every_filter_of_the_frame(path: str) -> None:
    filters = Filters(
        model=("lab/tiny-target",), gpu=("H200",), engine_version=("0.25.1",), dataset=("code",),
        tensor_parallel_size=("1",), arm=("baseline", "draft_model K=3"), study=("unknown",),
        since="2026-11-02", until="2026-11-02",
    )  # fmt: skip

    page = opened(path, filters)

    assert _shown(page)
    assert not page.error


@pytest.fixture(scope="module")
def rejections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse into which nothing went but a rejection."""
    root = tmp_path_factory.mktemp("rejections") / "warehouse"
    with open_writer(root) as writer:
        writer.reject(Rejection("results/broken.json", "Not a result: the file is empty."))
        writer.commit()
    return root


@pytest.fixture
def without_cells(rejections: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That warehouse as the one that the dashboard opens."""
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(rejections))


@pytest.mark.usefixtures("without_cells")
@pytest.mark.parametrize("path", PATHS)
def test_each_page_says_how_to_fill_an_empty_warehouse(path: str) -> None:
    page = opened(path)

    assert page.header
    assert "draftboard ingest" in page.info[0].value


UNKNOWN = (
    "model", "precision", "engine", "engine_version", "gpu", "gpu_count", "tensor_parallel_size",
    "dataset", "prompt_set_hash", "request_format", "load_profile", "concurrency", "evidence",
)  # fmt: skip


@pytest.fixture(scope="module", params=["known methods", "unknown methods"])
def unknowns(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory,
    fill_cells: Callable[..., None], make_facts: Callable[..., Any],
) -> Path:  # fmt: skip
    """A baseline and an arm of which nothing else is known, or not even that; no start, no
    acceptance, no requests."""
    root = tmp_path_factory.mktemp("unknown") / "warehouse"
    nothing = dict.fromkeys(UNKNOWN)
    changes = {"started_at": None, "duration": None, "acceptance": (), "requests": None}
    for method, k in (("none", None), ("ngram", 3)):
        arm = {"spec_method": method, "num_speculative_tokens": k}
        if request.param == "unknown methods":
            arm = dict.fromkeys(arm)
        fill_cells(root, method, [make_facts(**(nothing | arm))], **changes)
    return root


@pytest.fixture
def unknown(unknowns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That warehouse as the one that the dashboard opens."""
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(unknowns))


@pytest.mark.slow
@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("path", PATHS)
def test_each_page_says_unknown_and_guesses_nothing(path: str) -> None:
    page = opened(path)

    assert page.header
    elements = [*page.header, *page.text, *page.markdown, *page.caption, *page.info]
    told = [str(element.value) for element in elements]
    told += [str(v) for frame in page.dataframe for v in frame.value.to_numpy().ravel()]
    assert re.search(r"\b(unknown|not known|nothing|no)\b", "\n".join(told), re.IGNORECASE)
    assert not any(text in ("nan", "None", "NaT", "<NA>") for text in told)


@pytest.mark.usefixtures("warehouse")
def test_compare_answers_in_its_title() -> None:
    page = opened("compare", Filters(arm=("draft_model K=3",), dataset=("code",)))

    assert "a draft model with 3 draft tokens" in page.header[0].value.replace("\\", "")
    assert any("Decided on code · TP 1" in text.value for text in page.caption)


def test_before_the_first_result_the_page_says_how_to_get_one(empty_place: Path) -> None:
    page = AppTest.from_file(APP, default_timeout=60).run()

    assert not page.exception
    assert not page.error
    assert page.header[0].value == "No results yet"
    assert str(empty_place.name) in page.info[0].value
    assert [code.value for code in page.code] == ["draftboard ingest PATHS", "make demo"]


HOSTILE = ("<img src=x onerror=alert(1)>", "**bold** $x$ :red[y]")


@pytest.fixture(scope="module")
def markup(
    tmp_path_factory: pytest.TempPathFactory,
    fill_cells: Callable[..., None],
    make_facts: Callable[..., Any],
) -> Path:
    """Cells whose model, dataset and arm would be markup if anybody let them."""
    root = tmp_path_factory.mktemp("markup") / "warehouse"
    for method, night in itertools.product(("none", HOSTILE[1]), range(3)):
        arm = {"spec_method": method, "num_speculative_tokens": 3 if method != "none" else None}
        known = [make_facts(model=name, dataset=name, **arm) for name in HOSTILE]
        at = datetime(2026, 11, 2 + night, 22, tzinfo=UTC)
        fill_cells(root, f"run {method} {night}", known, started_at=at)
    return root


@pytest.fixture
def hostile(markup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That warehouse as the one that the dashboard opens."""
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(markup))


@pytest.mark.slow
@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("path", PATHS)
def test_markup_in_any_name_is_shown_as_text(path: str) -> None:
    page = opened(path, all_series="true", fold_points="true", by_load="true")

    said = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info, *page.warning]
    for name in HOSTILE:
        assert all(name not in element.value for element in said)
    assert not any(element.allow_html for element in page.markdown)
    shown = {str(v) for frame in page.dataframe for v in frame.value.to_numpy().ravel()}
    assert any(name in value for value in shown for name in HOSTILE)
    if path == "compare":
        page = opened(path, Filters(model=(HOSTILE[0],)))
        escaped = " ".join(e.value for e in (*page.header, *page.caption)).replace("\\", "")
        assert HOSTILE[0] in escaped
        assert HOSTILE[1] in escaped


@pytest.mark.usefixtures("warehouse")
def test_markup_in_a_model_name_stays_text() -> None:
    page = opened("data")

    assert all("<b>" not in element.value for element in (*page.markdown, *page.caption))
    assert not any(element.allow_html for element in page.markdown)


def test_a_new_ingest_appears_at_the_next_interaction(
    empty_place: Path, ingest_cells: Callable[[Path, str, str], None]
) -> None:
    ingest_cells(empty_place, "first", "code")
    page = AppTest.from_file(APP, default_timeout=60).run()
    assert any("Dataset\\: code" in caption.value for caption in page.sidebar.caption)

    ingest_cells(empty_place, "second", "new")
    page.run()

    assert page.multiselect(key="dataset").options == ["code", "new"]
