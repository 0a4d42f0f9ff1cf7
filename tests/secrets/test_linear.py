"""The search for credentials takes as long as the text is, however the text was made."""

import time
from collections.abc import Callable, Iterator

import pytest

from ingest.clean import clean_text
from ingest.stated import decoded
from runners.surroundings.machine import public
from tests.secrets.forms import FORMS
from warehouse.secrets import scrub_text
from warehouse.secrets.shapes import secrecy

#: Repeated, each of these keeps one of the patterns, or the cursor, busy.
PIECES = (
    "-", "a", "a ", "a=", "=", ":", " ", "\n", "\\", '"', "'", "[", "%3D", "://", "https://a", "@",
    "ab.", "a-", "é", "token", "token=", "token='", 'token="', "token: \\", "token=[", "api key ",
    "password ", "password is ", "Bearer ", "Basic ", "Authorization: ", "Cookie: ", "--a ",
    "--token ", "-p ", "-u a:", "wandb login ", "wandb login --a ", "mysql ", "sshpass -p", "ENV A ",
    "-e A=", "name: A_TOKEN ", "name: A_TOKEN, value: ", "<token>", "?key=", "a_key:", "Api_Key:", "pass=", "eyJ", "eyJabcdefgh.",
    "xoxb-", "MII", "hooks.slack.com/services/", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY----- token=x ", "-----BEGIN PRIVATE KEY-----\na\n", "/home/",
)  # fmt: skip
#: What is quadratic takes 16 times as long for four times the length; nothing may take half of it.
#: RE2 reads a short text in a faster way, so both lengths lie beyond that.
_LENGTH, _TIMES, _MOST = 32_000, 4, 8.0


def _seconds(work: Callable[[str], object], text: str) -> float:
    """Of this thread's processor: others on the machine do not count."""
    began = time.thread_time()
    work(text)
    return time.thread_time() - began


def _ratios(work: Callable[[str], object], piece: str) -> Iterator[float]:
    """How often as long the long text takes, three times three, each only if somebody asks."""
    # The last word lets no filter pass the text over.
    once = piece * (_LENGTH // len(piece)) + " token"
    often = piece * (_TIMES * _LENGTH // len(piece)) + " token"
    for _ in range(3):
        # Below a quarter of a millisecond a clock says nothing.
        least = max(2.5e-4, min(_seconds(work, once) for _ in range(3)))
        for _ in range(3):
            yield _seconds(work, often) / least


def _is_linear(work: Callable[[str], object], piece: str) -> bool:
    return any(ratio < _MOST for ratio in _ratios(work, piece))


@pytest.mark.parametrize(
    "piece", [*PIECES, *(make("x")[0] + " " for make in list(FORMS.values())[::8])]
)
def test_four_times_the_text_takes_about_four_times_as_long(piece: str) -> None:
    assert _is_linear(scrub_text, piece)


@pytest.mark.parametrize("piece", ["-", "/home/", "/home/a ", "token="])
def test_so_does_making_a_text_public(piece: str) -> None:
    assert _is_linear(public, piece)


@pytest.mark.parametrize("piece", ["-", "\u202e", "token=", "\x00"])
def test_so_does_cleaning_a_text(piece: str) -> None:
    assert _is_linear(clean_text, piece)


@pytest.mark.parametrize("piece", ["a", "A", "A_", "aB", "9", "_", "-"])
def test_of_a_name_only_the_end_counts(piece: str) -> None:
    assert secrecy(piece * 100_000 + "_TOKEN") == "certain"
    assert _is_linear(secrecy, piece)


@pytest.mark.parametrize("piece", ['\\"', '"', "NaN ", '"\\'])
def test_so_does_reading_what_is_no_number(piece: str) -> None:
    def read(text: str) -> None:
        with pytest.raises(ValueError, match="stop"):
            decoded(memoryview(b"NaN " + text.encode()), _stop)

    assert _is_linear(read, piece)


def _stop(data: bytes | memoryview) -> None:
    import msgspec

    if bytes(data[:3]) == b"NaN":
        raise msgspec.DecodeError("JSON is malformed: invalid character (byte 0)")
    raise ValueError("stop")


def test_a_text_of_hyphens_stays_as_it_is() -> None:
    text = "-" * 12_000
    assert scrub_text(text) == text


def test_a_credential_of_any_length_is_taken_out_whole() -> None:
    for text in ("HF_TOKEN=", "?key=", "--api-key ", "X-Api-Key: ", "client_secret%3D"):
        assert scrub_text(text + "a1B2" * 2000 + " end").endswith("[removed] end")
