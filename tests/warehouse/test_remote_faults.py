"""What networks, clouds and hands do to a bucket: it goes on, or says one clear sentence."""

import runpy
from pathlib import Path

import pytest

from warehouse.errors import DraftboardError, InvalidInput, WarehouseDamaged, WarehouseUnreachable
from warehouse.storage.cache import warehouse_path
from warehouse.storage.copies import push
from warehouse.storage.current import pull
from warehouse.storage.objects import ObjectStore
from warehouse.store import Reader, open_writer

FAKE = runpy.run_path(str(Path(__file__).parent / "fake_front.py"))


@pytest.fixture
def published(bucket, make_source, make_cell):
    """``published("name")``: the writer's machine publishes one source more."""

    def publish(name="one"):
        source = make_source(name)
        with open_writer(bucket.at("writer")) as writer:
            writer.add(source, [make_cell(source, 0)])
            return writer.commit()

    return publish


def said(root):
    """The sentence with which a look at the store ends."""
    with pytest.raises(DraftboardError) as caught:
        pull(root)
    text = str(caught.value)
    assert "\n" not in text
    assert "a secret of the bucket" not in text
    return text


def is_read_again(bucket, root):
    """What was published is there once the store is well again."""
    bucket.front.heal()
    pull(root)
    with Reader(root) as reader:
        assert reader.generation == 1


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("GET .*tables/", FAKE["cut"]),
        ("GET .*CURRENT", FAKE["refused"](503, "SlowDown")),
        ("GET ", FAKE["slow"]),
    ],
    ids=["cut in the middle", "503", "slow"],
)
def test_a_reader_asks_again(bucket, published, pattern, fault):
    published()
    bucket.front.fail(pattern, fault, times=2)
    with Reader(bucket.at("reader")) as reader:
        assert reader.generation == 1


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("PUT .*tables/", FAKE["unanswered"]),
        ("PUT .*CURRENT", FAKE["unanswered"]),
        ("PUT .*CURRENT", FAKE["refused"](503, "SlowDown")),
        ("PUT ", FAKE["slow"]),
    ],
    ids=["a table's answer is cut", "the last answer is cut", "503", "slow"],
)
def test_a_writer_asks_again_and_publishes_once(bucket, published, pattern, fault):
    published()
    bucket.front.fail(pattern, fault, times=1)
    assert published("two") == 2
    with Reader(bucket.at("reader")) as reader:
        assert reader.query("overview").to_pylist()[0]["cells"] == 2


def test_a_folder_is_pushed_whose_last_answer_is_cut(bucket, filled):
    bucket.front.fail("PUT .*CURRENT", FAKE["unanswered"], times=1)
    assert push(filled, bucket.at("writer")) > 5
    with Reader(bucket.at("reader")) as reader, Reader(filled) as before:
        assert reader.generation == before.generation


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (FAKE["refused"](400, "ExpiredToken"), "the credentials have expired: log in again"),
        (FAKE["refused"](403, "AccessDenied"), "the credentials may not do this"),
        (FAKE["refused"](403, "InvalidAccessKeyId"), "the credentials are not accepted"),
        (FAKE["refused"](403, "RequestTimeTooSkewed"), "this machine's clock is wrong"),
        (FAKE["refused"](301, "PermanentRedirect"), "in another region: set AWS_REGION"),
        (FAKE["refused"](400, "AuthorizationHeaderMalformed"), "in another region"),
    ],
)
def test_what_the_cloud_refuses_is_one_sentence(bucket, published, fault, sentence):
    published()
    bucket.front.fail("GET ", fault)
    assert sentence in said(bucket.at("reader"))


def test_a_bucket_that_is_not_there_is_one_sentence(bucket):
    assert "there is no such bucket" in said(warehouse_path("s3://nobody-has-this/results"))


def test_a_bucket_that_disappears_is_said_and_what_was_read_stays(bucket, published):
    published()
    root = bucket.at("reader")
    pull(root)
    bucket.front.fail("", FAKE["refused"](404, "NoSuchBucket"))
    assert "there is no such bucket (or it is gone)" in said(root)
    is_read_again(bucket, root)


def test_a_bucket_that_was_emptied_is_said(bucket, published):
    published()
    root = bucket.at("reader")
    pull(root)
    store = ObjectStore(bucket.url)
    store.remove(["CURRENT"])
    assert "holds no CURRENT any more" in said(root)


def test_nothing_in_the_bucket_yet_is_no_warehouse_yet(bucket):
    root = bucket.at("reader")
    with pytest.raises(DraftboardError, match="There is no warehouse at"):
        Reader(root)


def test_a_current_that_names_what_is_not_there_is_said(bucket, published, tmp_path):
    published()
    for text, sentence in (
        ("generation-7-0123456789abcdef.json", "which CURRENT names, is not there"),
        ("nonsense", "does not name a generation"),
    ):
        (tmp_path / "new").write_text(text)
        ObjectStore(bucket.url).send(tmp_path / "new", "CURRENT")
        assert sentence in said(bucket.at("reader"))


@pytest.mark.parametrize("pattern", ["GET .*tables/", "GET .*generation-"])
def test_a_truncated_object_is_said_and_not_kept(bucket, published, pattern):
    published()
    bucket.front.fail(pattern, FAKE["truncated"])
    root = bucket.at("reader")
    assert "is not what was written there (truncated, or replaced by hand)" in said(root)
    is_read_again(bucket, root)


def test_an_object_that_is_gone_is_said(bucket, published):
    published()
    store = ObjectStore(bucket.url)
    store.remove([entry.name for entry in store.entries("tables")][:1])
    with pytest.raises(WarehouseDamaged, match=r"is not there; bring an older one back with"):
        pull(bucket.at("reader"))


def test_a_store_without_conditions_is_refused_by_name(bucket, published):
    bucket.front.fail("PUT ", FAKE["deaf"])
    with pytest.raises(WarehouseUnreachable, match=rf"{bucket.url} lies in a store that does not"):
        published()
    assert not ObjectStore(bucket.url).entries("")


def test_a_writer_that_cannot_reach_the_store_publishes_nothing_and_can_go_on(bucket, published):
    published()
    bucket.front.fail("PUT .*(requests|tables)/", FAKE["refused"](403, "AccessDenied"))
    with pytest.raises(WarehouseUnreachable, match="may not do this"):
        published("two")
    with Reader(bucket.at("reader")) as reader:
        assert reader.generation == 1
    bucket.front.heal()
    assert published("two") == 2


@pytest.mark.parametrize(
    "url", ["s3://", "ftp://bucket/x", "s3://key:secret@bucket/x", "s3://b/../c"]
)
def test_an_address_that_can_be_none_is_refused(url):
    with pytest.raises(InvalidInput, match=r"name a folder|and nothing else"):
        warehouse_path(url)
