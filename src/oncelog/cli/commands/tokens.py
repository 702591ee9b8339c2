"""`oncelog tokens`: delegation tokens; what proves one is shown when it is made, and never asked for on a command line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.durations import DURATION
from oncelog.cli.output import Failed, columns
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.tokens import DelegationToken
from oncelog.errors import DelegationTokenDisabled, UnsupportedByAuthentication

COLUMNS = columns(
    *("token", "owner", "requester", "renewers", "expiry_timestamp_ms", "max_timestamp_ms"),
    wide=("issue_timestamp_ms",),
)


@click.group(cls=Group)
def tokens() -> None:
    """Delegation tokens: list, create, renew, expire."""


@tokens.command("list", watchable=True)
@click.argument("owners", nargs=-1, metavar="[OWNER]...")
@click.pass_obj
async def list_tokens(settings: Settings, owners: tuple[str, ...]) -> None:
    """Tokens of these owners (else all) that you may see: your own, those you may renew, and what you have a right to."""
    async with open_admin(settings) as admin:
        found = await admin.describe_delegation_tokens(owners or None)
    settings.out.rows(COLUMNS, [_row(each) for each in found], empty="there are no tokens")


@tokens.command("create", changes=True, shows=True)
@click.option("--owner", help="For somebody else: needs CREATE_TOKENS on that user.")
@click.option("--renewer", "renewers", multiple=True, help="Who may renew and end it besides its owner. Repeatable.")
@click.option("--max-lifetime", type=DURATION, help="When it ends whatever happens, e.g. 7d. Default: the broker's.")
@click.pass_obj
async def create_token(
    settings: Settings, owner: str | None, renewers: tuple[str, ...], max_lifetime: int | None
) -> None:
    """Make a token. Its password is shown now; keep it: it logs in as you, with SCRAM and tokenauth."""
    if settings.dry_run:
        async with open_admin(settings) as admin:
            await _known(admin, "create a delegation token")
        settings.out.rows(columns("owner", "result"), [{"owner": owner or "", "result": "would be created"}])
        return
    lifetime_ms = -1 if max_lifetime is None else max_lifetime
    async with open_admin(settings) as admin:
        made = await admin.create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=lifetime_ms)
    settings.out.rows([*COLUMNS, *columns("password")], [_row(made) | {"password": made.password}])


@tokens.command("renew", changes=True)
@click.argument("token_id", metavar="TOKEN")
@click.option("--period", type=DURATION, help="For how long from now, e.g. 24h. Default: the broker's.")
@click.pass_obj
async def renew_token(settings: Settings, token_id: str, period: int | None) -> None:
    """Let a token hold longer, never beyond its end."""
    async with open_admin(settings) as admin:
        token = await _token(admin, token_id, "renew")
        ends_ms = token.expiry_timestamp_ms
        if not settings.dry_run:
            ends_ms = await admin.renew_delegation_token(token.hmac, period_ms=-1 if period is None else period)
    result = "would be renewed" if settings.dry_run else "renewed"
    settings.out.rows(columns("token", "expiry_timestamp_ms", "result"), [_outcome(token_id, ends_ms, result)])


@tokens.command("expire", changes=True)
@click.argument("token_id", metavar="TOKEN")
@click.option("--in", "period", type=DURATION, help="Not at once but after this time, e.g. 1h.")
@click.pass_obj
async def expire_token(settings: Settings, token_id: str, period: int | None) -> None:
    """End a token: who came by it is put out."""
    async with open_admin(settings) as admin:
        token = await _token(admin, token_id, "expire")
        ends_ms = token.expiry_timestamp_ms
        what = f"end the token {token_id} of {token.owner}: who uses it cannot log in any more"
        if settings.confirm(what, token_id):
            ends_ms = await admin.expire_delegation_token(token.hmac, period_ms=-1 if period is None else period)
    result = "would be ended" if settings.dry_run else "ended" if period is None else "will end"
    settings.out.rows(columns("token", "expiry_timestamp_ms", "result"), [_outcome(token_id, ends_ms, result)])


async def _token(admin: Admin, token_id: str, to: str) -> DelegationToken:
    """Its MAC, without which nothing is done to it, is in the list."""
    known = await _known(admin, f"{to} the delegation token {token_id}")
    found = next((each for each in known if each.token_id == token_id), None)
    if found is None:
        raise Failed(f"there is no token {token_id} that you may see: `oncelog tokens list` has those")
    return found


async def _known(admin: Admin, what: str) -> Sequence[DelegationToken]:
    """The tokens that one may see. Raises what is refused to every request about tokens, as said of `what`."""
    try:
        return await admin.describe_delegation_tokens()
    except (UnsupportedByAuthentication, DelegationTokenDisabled) as error:
        raise type(error)(what) from error


def _row(token: DelegationToken) -> dict[str, object]:
    return {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_timestamp_ms": token.issue_timestamp_ms,
        "expiry_timestamp_ms": token.expiry_timestamp_ms,
        "max_timestamp_ms": token.max_timestamp_ms,
    }


def _outcome(token_id: str, ends_ms: int, result: str) -> dict[str, object]:
    return {"token": token_id, "expiry_timestamp_ms": ends_ms, "result": result}
