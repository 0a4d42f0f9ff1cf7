"""``draftboard token``: personal tokens for programs that ask the API."""

from pathlib import Path

import click

from commands.exclude import author_option, author_or_unknown
from commands.options import whole_warehouse_option


@click.group()
def token() -> None:
    """Make, list and take back tokens by which programs ask the API of a dashboard with a login.

    Example: draftboard token new ada@example.com --days 30
    """


@token.command()
@click.argument("account", metavar="ADDRESS")
@click.option(
    "--days", type=click.IntRange(1, 366), default=90, show_default=True, help="How long it counts."
)
@author_option
@whole_warehouse_option
def new(account: str, days: int, author: str | None, warehouse: Path | None) -> None:
    """Make a token for the person with ADDRESS, whom the login's settings have to name by address
    or domain. Who has it reads what a viewer reads, and does nothing else.

    The token is printed once and kept nowhere: in the warehouse stands a hash of it.
    """
    from warehouse.annotations import make_token
    from warehouse.errors import InvalidInput
    from warehouse.store_cache import warehouse_path

    if account.count("@") != 1 or account.strip() != account:
        raise InvalidInput(f"{account!r} is no address; write one like ada@example.com.")
    root, who = warehouse_path(warehouse), author_or_unknown(author)
    made, secret = make_token(root, account, days, who)
    click.echo(secret)
    click.echo(
        f"Token {made.id} of {made.account}, until {made.ends:%Y-%m-%d}. It is not shown again. "
        "Send it as: Authorization: Bearer TOKEN", err=True,
    )  # fmt: skip


@token.command(name="list")
@whole_warehouse_option
def list_(warehouse: Path | None) -> None:
    """List the tokens that count."""
    from commands.output import show_table
    from warehouse.annotations import tokens_held
    from warehouse.store_cache import warehouse_path

    held = tokens_held(warehouse_path(warehouse))
    if not held:
        click.echo("There is no token that counts. Make one: draftboard token new ADDRESS")
        return
    show_table(
        ["token", "of", "made (UTC)", "until"],
        [[t.id, t.account, f"{t.made:%Y-%m-%d}", f"{t.ends:%Y-%m-%d}"] for t in held],
    )


@token.command()
@click.argument("number", metavar="TOKEN")
@author_option
@whole_warehouse_option
def revoke(number: str, author: str | None, warehouse: Path | None) -> None:
    """Take a token back, by the name under which it is listed; it counts no more at once."""
    from warehouse.annotations import revoke_token
    from warehouse.store_cache import warehouse_path

    gone = revoke_token(warehouse_path(warehouse), number, author_or_unknown(author))
    click.echo(f"Token {gone.id} of {gone.account} counts no more.")
