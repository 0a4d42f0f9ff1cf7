"""An address is taken apart, and what is said of it holds no password."""

import pytest

from warehouse.errors import InvalidInput
from warehouse.lakes import CatalogueTarget, address_of, require_name, target_of


@pytest.mark.parametrize(
    ("given", "uri", "password"),
    [
        (
            "postgresql://u:p%40w@h:5/d?sslmode=require",
            "postgresql://u@h:5/d?sslmode=require",
            "p@w",
        ),
        ("postgresql://u@/d?host=/run/pg&password=x", "postgresql://u@/d?host=/run/pg", "x"),
        ("postgresql://h/d", "postgresql://h/d", None),
        ("mysql://u:s@h/x", "mysql://u@h/x", "s"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db", None),
        ("lake/all.ducklake", "lake/all.ducklake", None),
    ],
)
def test_a_password_is_taken_out_of_an_address(given: str, uri: str, password: str | None) -> None:
    assert target_of(given) == CatalogueTarget(uri, password)


def test_what_a_library_says_is_one_line_without_the_password() -> None:
    said = CatalogueTarget("postgresql://u@h/d", "hunter-2").safe(
        " no entry\tfor hunter-2.\nTraceback: hunter-2"
    )
    assert said == "no entry for ***"


@pytest.mark.parametrize("name", ['a"b', "1a", "", "a.b", "a;drop"])
def test_a_schema_that_an_engine_would_have_to_quote_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="no name for a schema"):
        require_name(name)
    assert require_name("team_2") == "team_2"


def test_a_folder_is_named_absolutely_and_an_address_as_it_is() -> None:
    assert address_of("s3://b/p") == "s3://b/p"
    assert (address_of("lake") or "").startswith("/")
