"""What one client may have at once, and where a question in SQL waits; nothing is timed."""

import threading
from contextlib import AbstractContextManager

import pytest

from dashboard.components import plain, sentence
from dashboard.doors.quotas import ClientLimits, Ledger, OverLimit
from dashboard.turns import MOST_OF_ONE, TooManyWait, Turns

LIMITS = ClientLimits(sessions=2, uploads=1, upload_mb=1)


def test_a_client_has_as_many_pages_open_as_it_may_and_others_theirs() -> None:
    ledger = Ledger()

    def page_of(client: str) -> AbstractContextManager[None]:
        return ledger.counting(client, "pages", LIMITS.sessions)

    with page_of("ann"), page_of("ben"):
        with page_of("ann"), pytest.raises(OverLimit, match="2 pages"), page_of("ann"):
            pass
        with page_of("ann"):
            pass


def test_bytes_of_uploads_count_for_ten_minutes() -> None:
    ledger = Ledger()
    ledger.take_bytes("ann", 1 << 20, LIMITS, 0.0)

    with pytest.raises(OverLimit) as over:
        ledger.take_bytes("ann", 1, LIMITS, 500.0)
    assert over.value.wait_s == 100
    ledger.take_bytes("ben", 1, LIMITS, 500.0)
    ledger.take_bytes("ann", 1, LIMITS, 600.0)


def test_a_ledger_forgets_whom_it_has_not_heard_of() -> None:
    ledger = Ledger()
    for number in range(5_000):
        ledger.take_bytes(f"10.0.{number}", 1, LIMITS, float(number))

    assert len(ledger._bytes) < 1_100


def test_questions_in_sql_are_answered_one_at_a_time_and_hear_how_many_come_before() -> None:
    turns, first_in, go = Turns(), threading.Event(), threading.Event()
    heard: list[int] = []

    def first() -> None:
        with turns.turn("ann", heard.append):
            first_in.set()
            go.wait(30)

    def let_go(before: int) -> None:
        heard.append(before)
        go.set()

    holder = threading.Thread(target=first)
    holder.start()
    first_in.wait(30)
    with turns.turn("ben", let_go):
        assert go.is_set()
    holder.join()

    assert heard[0] == 1
    assert len(turns) == 0


def test_one_client_cannot_fill_the_queue() -> None:
    turns, inside = Turns(), threading.Event()
    done = threading.Event()

    def hold() -> None:
        with turns.turn("ann", lambda _: inside.set()):
            done.wait(30)

    threads = [threading.Thread(target=hold) for _ in range(MOST_OF_ONE)]
    for thread in threads:
        thread.start()
    inside.wait(30)
    with pytest.raises(TooManyWait, match="2 of them yours"), turns.turn("ann", lambda _: None):
        pass
    done.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("There is no warehouse at /srv/team/data/warehouse; ingest.", "There is no warehouse at …/warehouse; ingest."),
        ('Cannot open file "/home/ann/wh/tables/a.parquet": No', 'Cannot open file "…/a.parquet": No'),
        ("See ~/results/x for more.", "See …/x for more."),
        ("It takes 1/2 of tokens/s; see https://example.com/a/b.", "It takes 1/2 of tokens/s; see https://example.com/a/b."),
        ("lab/tiny-target on H200", "lab/tiny-target on H200"),
    ],
)  # fmt: skip
def test_a_refusal_names_no_folder_of_the_server(said: str, told: str) -> None:
    assert sentence(ValueError(said)) == told


@pytest.mark.parametrize(
    "text",
    ["https://evil.example/x", "HTTP://evil.example", "www.evil.example", "ann@evil.example"],
)
def test_a_bare_address_in_a_text_is_broken_where_a_link_would_be_made(text: str) -> None:
    said = plain(f"see {text}").replace("\\", "")

    assert said.replace("\u2060", "") == f"see {text}"
    assert text not in said
    assert "\u2060" not in plain("ratio a@b, 4 www, http: yes")
