"""By its name alone it is known how sure it is that a value is a credential."""

import pytest

from warehouse.secrets.shapes import secrecy


@pytest.mark.parametrize(
    "name",
    [
        "password", "PGPASSWORD", "api_key", "apiKey", "--api-key", "OPENAI_API_KEY", "hf_token", "hftoken",
        "token", "notify_url", "notify-urls", "webhookUrl", "connectionString", "db connection string",
        "aws_access_key_id", "refresh_tokens", "Authorization", "GATE_KEY",
    ],
)  # fmt: skip
def test_a_value_under_such_a_name_is_certainly_a_credential(name: str) -> None:
    assert secrecy(name) == "certain"


@pytest.mark.parametrize("name", ["customer_key", "pass", "auth", "gate-key"])
def test_under_such_a_name_it_may_be_one(name: str) -> None:
    assert secrecy(name) == "perhaps"


@pytest.mark.parametrize(
    "name",
    ["key", "primary_key", "cache-key", "eos_token", "max_tokens", "draft_token", "dataset_url", "PWD",
     "model", "string", ""],
)  # fmt: skip
def test_under_such_a_name_it_is_none(name: str) -> None:
    assert secrecy(name) is None
