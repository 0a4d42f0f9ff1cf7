"""What ``draftboard publish`` writes is read by what others use, and ``verify`` finds what was altered."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import mlcroissant
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from playwright.sync_api import expect
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner, SSlibKey

from commands.publishing import attestation
from tests.commands.asking import refused, run
from tests.dashboard.browser.seen import chromium
from warehouse import annotations
from warehouse.annotations import annotation
from warehouse.filters import Filters
from warehouse.queries import runs
from warehouse.store import Reader

NAMED = ("--title", "A <b>lab</b>", "--licence", "CC-BY-4.0", "--by", "Example Lab")


def made_key(path: Path) -> Path:
    """A key as openssl writes it."""
    key = Ed25519PrivateKey.generate()
    kind = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    path.write_bytes(key.private_bytes(*kind, serialization.NoEncryption()))
    return path


def published(root: Path, out: Path, key: Path) -> Path:
    done = run("publish", "--warehouse", str(root), "--out", str(out), "--key", str(key), *NAMED)
    assert done.exception is None, done.output
    return out


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_key(tmp_path_factory.mktemp("key") / "key.pem")


@pytest.fixture(scope="module")
def whole(first_lab: Path, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of the recorded runs, one of which is excluded and one spoken of, that nobody changes."""
    place = tmp_path_factory.mktemp("set")
    root = place / "warehouse"
    shutil.copytree(first_lab, root)
    with Reader(root) as reader:
        told = runs(reader, Filters()).to_pylist()
    # By name: what was taken in within one second comes in any order.
    first = next(row for row in told if row["dataset"] != "code")
    second = next(row for row in told if row["dataset"] == "code")
    for action, row in (("exclude", first), ("note", second)):
        target = annotations.AnnotationTarget(row["run_id"], row["source_id"])
        said = annotation(action, target, f"Kingfisher: {action}", "Ada Colleague")
        annotations.add(root, said)
    return published(root, place / "out", key)


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    """A copy of it that may be changed."""
    shutil.copytree(whole, tmp_path / "set")
    for path in (tmp_path / "set").rglob("*"):
        path.chmod(0o755)
    return tmp_path / "set"


def test_a_set_holds_also_the_second_time_it_is_asked(whole: Path) -> None:
    for _ in range(2):
        done = run("verify", str(whole))
        assert done.exception is None, done.output
        assert "Numbers: 1,152 follow from the requests." in done.stdout
        assert "by Example Lab" in done.stdout


def test_the_card_is_what_hugging_face_reads(whole: Path) -> None:
    _, head, text = (whole / "README.md").read_text(encoding="utf-8").split("---\n", 2)

    said = yaml.safe_load(head)
    assert (said["license"], said["pretty_name"]) == ("cc-by-4.0", "A <b>lab</b>")
    (config,) = said["configs"]
    assert pq.read_table(whole / config["data_files"]).num_rows == 9
    assert "# A \\<b\\>lab" in text


# mlcroissant and what it stands on warn of themselves.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_croissant_describes_the_rows_that_are_there(whole: Path) -> None:
    described = mlcroissant.Dataset(jsonld=str(whole / "croissant.json"))

    rows = list(described.records("results"))

    assert len(rows) == 9
    assert not described.metadata.ctx.issues.errors
    expected = pq.read_table(whole / "results.parquet").column("ttft_p50").to_pylist()
    assert [row["results/ttft_p50"] for row in rows] == pytest.approx(expected)


def test_the_signature_is_checked_by_the_library_of_others(whole: Path) -> None:
    raw = json.loads((whole / attestation.STATEMENT).read_text())
    public = attestation.public_key(whole / attestation.PUBLIC_KEY)
    theirs = SSlibKey.from_crypto(public, keyid=raw["signatures"][0]["keyid"])

    envelope = Envelope.from_dict(raw)

    assert envelope.verify([theirs], 1)
    statement = json.loads(envelope.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicate"]["measured"]["engine"] == ["vllm"]


def test_what_was_said_among_colleagues_stays_at_home(whole: Path) -> None:
    text = (whole / "data" / annotations.FILE).read_text(encoding="utf-8")
    said = [json.loads(line) for line in text.splitlines()]

    assert [(one["action"], one["author"]) for one in said] == [("exclude", "Example Lab")]
    for path in whole.rglob("*"):
        assert path.is_dir() or b"Ada Colleague" not in path.read_bytes()


def test_a_warehouse_with_a_credential_is_not_published(
    filled: Path, tmp_path: Path, key: Path
) -> None:
    (table,) = (filled / "tables").glob("sources-*.parquet")
    rows = pq.read_table(table)
    secret = pa.array(["hf_" + "abcdefghijklmnopqrstuvwxyz12345678"] * rows.num_rows)
    place = rows.schema.get_field_index("provenance")
    pq.write_table(rows.set_column(place, rows.schema.field("provenance"), secret), table)

    error = refused(
        "publish", "--warehouse", str(filled), "--out", str(tmp_path / "o"), "--key", str(key), *NAMED
    )  # fmt: skip

    assert "provenance of tables holds what looks like a credential" in str(error)
    assert not (tmp_path / "o").exists()


def _cut(folder: Path) -> None:
    path = next((folder / "data" / "requests").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])


def _other_number(folder: Path) -> None:
    path = folder / "results.parquet"
    rows = pq.read_table(path)
    place = rows.schema.get_field_index("ttft_p50")
    pq.write_table(rows.set_column(place, "ttft_p50", pa.array([1.0] * rows.num_rows)), path)


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (_other_number, "results.parquet is not what was signed"),
        (_cut, ".parquet is not what was signed"),
        (lambda folder: (folder / "claims.json").unlink(), "claims.json is missing"),
        (lambda folder: (folder / "more.parquet").touch(), "more.parquet was not signed"),
    ],
)
def test_what_was_altered_is_named(
    copied: Path, alter: Callable[[Path], object], said: str
) -> None:
    alter(copied)

    done = run("verify", str(copied))

    assert done.exception is not None
    assert said in done.stderr


def test_a_number_that_does_not_follow_from_the_requests_is_found_though_it_is_signed(
    filled: Path, tmp_path: Path, key: Path
) -> None:
    # The measurements of this warehouse are made up, its requests are others.
    done = run("verify", str(published(filled, tmp_path / "set", key)))

    assert done.exception is not None
    assert "eagle3 K=3, HumanEval" in done.stderr
    assert "output_throughput mean is 1,500, and its requests come to" in done.stderr


def test_a_claim_that_does_not_follow_from_the_numbers_is_found_though_it_is_signed(
    copied: Path, key: Path
) -> None:
    claims = json.loads((copied / "claims.json").read_text())
    claims["decide"]["decisions"][0]["answer"] = "yes"
    (copied / "claims.json").write_text(json.dumps(claims))
    attestation.sign(copied, {"published_by": "Example Lab"}, attestation.private_key(key))

    done = run("verify", str(copied))

    assert done.exception is not None
    assert (
        'claims.json says decide.decisions[0].answer = "yes", and the set comes to' in done.stderr
    )


def test_a_table_that_does_not_follow_from_the_numbers_is_found_though_it_is_signed(
    copied: Path, key: Path
) -> None:
    _other_number(copied)
    attestation.sign(copied, {}, attestation.private_key(key))

    assert "results.parquet is not what data comes to." in run("verify", str(copied)).stderr


def test_a_signature_of_sigstore_may_lie_in_the_set_and_is_said_not_to_be_checked(
    copied: Path,
) -> None:
    (copied / "attestation.json.sigstore.json").write_text("{}")

    done = run("verify", str(copied))

    assert done.exception is None, done.output
    assert "Not checked here: attestation.json.sigstore.json" in done.stdout


def test_another_s_signature_is_none(copied: Path, tmp_path: Path) -> None:
    other = made_key(tmp_path / "other.pem")
    private = attestation.private_key(other)
    shutil.copy(copied / attestation.PUBLIC_KEY, tmp_path / "publisher.pub")
    attestation.sign(copied, {"published_by": "Example Lab"}, private)

    error = refused("verify", str(copied), "--key", str(tmp_path / "publisher.pub"))

    assert "somebody else published it" in str(error)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a\\b", "c:x", ""])
def test_a_statement_that_names_a_file_elsewhere_is_refused(
    copied: Path, key: Path, name: str, served: Callable[[Path], str]
) -> None:
    raw = json.loads((copied / attestation.STATEMENT).read_text())
    envelope = Envelope.from_dict(raw)
    statement = json.loads(envelope.payload)
    statement["subject"][0]["name"] = name
    envelope.payload = json.dumps(statement).encode()
    envelope.signatures.clear()
    envelope.sign(CryptoSigner(attestation.private_key(key)))
    (copied / attestation.STATEMENT).write_text(json.dumps(envelope.to_dict()))

    assert "is no file of the set" in str(refused("verify", served(copied)))


@pytest.fixture
def served() -> Iterator[Callable[[Path], str]]:
    """``served(folder)``: its address on a plain web server."""
    running: list[ThreadingHTTPServer] = []

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    def serve(folder: Path) -> str:
        handler = partial(Quiet, directory=str(folder))
        running.append(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=running[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{running[-1].server_port}"

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


def test_a_set_behind_an_address_is_verified_alike(
    copied: Path, served: Callable[[Path], str]
) -> None:
    address = served(copied)

    done = run("verify", address)
    (copied / "claims.json").write_text("{}" * 100_000)
    larger = refused("verify", address)

    assert "1,152 follow from the requests" in done.stdout
    assert "larger than its statement says" in str(larger)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verify", "/none"), "is no folder"),
        (("verify", "http://127.0.0.1:1"), "cannot be fetched"),
        (("publish", "--out", "o", "--key", "/none.pem", *NAMED), "openssl genpkey"),
        (
            ("publish", "--out", "o", "--key", "pyproject.toml", *NAMED),
            "no unencrypted ed25519 key",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    assert said in str(refused(*words))


@pytest.mark.browser
def test_the_page_reads_the_table_in_a_browser_from_a_plain_server_and_from_a_disk(
    whole: Path, served: Callable[[Path], str]
) -> None:
    with chromium() as browser:
        page = browser.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{served(whole)}/index.html")
        expect(page.locator("#said")).to_contain_text("9 of 9 cells")
        page.fill("#words", "K=3 code")
        expect(page.locator("tbody tr")).to_have_count(3)

        page.goto((whole / "index.html").as_uri())
        page.set_input_files("#file", str(whole / "results.parquet"))
        expect(page.locator("#said")).to_contain_text("9 of 9 cells")
        page.click("text=ttft_p50")
        first = page.locator("tbody tr").first
        largest = max(pq.read_table(whole / "results.parquet").column("ttft_p50").to_pylist())
        expect(first).to_contain_text(f"{largest:#.4g}")
    assert not wrong
