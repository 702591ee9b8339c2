"""`oncelog console`: the web console. The server and its packages are imported when it starts."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from oncelog.cli.command import Command, Settings
from oncelog.cli.output import Failed
from oncelog.errors import ConfigurationError

if TYPE_CHECKING:
    from oncelog.console.security import Gate

PORT = 8180
NAMED_HEADER = "header:"
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
PUBLIC_NAME = re.compile(r"[\w.-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
OPEN_TO_ALL = "--allow-writes and --i-know-this-is-open exclude each other: everybody could end transactions"
EXTRA = "the console needs packages that are not here: pip install 'oncelog[console]'"


@click.command("console", cls=Command, shows=False)
@click.option("--listen", default=f"127.0.0.1:{PORT}", metavar="HOST:PORT", help=f"Where [default: 127.0.0.1:{PORT}].")
@click.option("--database", "database_url", metavar="URL", help="Where dual writes are decided, for the page In doubt.")
@click.option(
    "--auth", metavar="header:NAME", help="A proxy says in this header who the user is; needs --trusted-proxy."
)
@click.option("--trusted-proxy", "proxies", multiple=True, metavar="ADDRESS", help="From where --auth is believed.")
@click.option("--operator", "operators", multiple=True, metavar="NAME", help="Of --auth: who may act; others look.")
@click.option("--login", "has_login", is_flag=True, help="Each person brings a SCRAM name and password of their own.")
@click.option("--public-name", "names", multiple=True, metavar="HOST[:PORT]", help="Another name it is reached by.")
@click.option(
    "--i-know-this-is-open", "is_known_open", is_flag=True, help="Everybody who reaches the address may look."
)
@click.option("--mask", "masked", metavar="FIELD,...", help="JSON fields that never leave the server, at any depth.")
@click.option("--hide-values", is_flag=True, help="Values of records never leave the server.")
@click.option(
    "--allow-writes", is_flag=True, help="Who may look may also end transactions, each after typing its name."
)
@click.pass_obj
async def console(
    settings: Settings,
    listen: str,
    database_url: str | None,
    auth: str | None,
    proxies: tuple[str, ...],
    operators: tuple[str, ...],
    has_login: bool,
    names: tuple[str, ...],
    is_known_open: bool,
    masked: str | None,
    hide_values: bool,
    allow_writes: bool,
) -> None:
    """A web page that shows who holds readers back, why, and the command to type. It changes nothing without --allow-writes.

    The first line on stdout, `ready URL`, is a link for one browser; when it was used, the next one is printed.
    """
    host, port = _address(listen)
    header = _header(auth, proxies)
    _check_operators(operators, header, allow_writes=allow_writes)
    fields = _fields(masked)
    _check_names(names)
    if database_url is not None:
        _check_database(database_url)
    try:
        from oncelog.console.login import LoginGate, check_login, login_application
        from oncelog.console.record_filter import Mask
        from oncelog.console.routes import application
        from oncelog.console.security import Gate, hosts_of, is_loopback
    except ImportError as error:
        raise Failed(f"{EXTRA} ({error.name})") from error
    _check_who(host, header, is_loopback=is_loopback(host), has_login=has_login, is_open=is_known_open)
    if has_login:
        check_login(settings)
    if allow_writes and is_known_open:
        raise click.UsageError(OPEN_TO_ALL)
    bound = _bound(host, port)
    with contextlib.closing(bound):
        port = bound.getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        hosts, cookie = hosts_of(host, port, names), f"oncelog_console_{port}"  # a cookie is every port's of its host
        more: dict[str, Any] = {"database_url": database_url, "mask": Mask(fields, hide_values)}
        more["allow_writes"] = allow_writes
        gate = Gate(hosts, is_known_open, header, frozenset(proxies), frozenset(operators) or None, cookie=cookie)
        if has_login:
            app = login_application(settings, LoginGate(hosts, cookie=cookie), **more)
        else:
            app = application(settings, gate, **more)
        has_links = header is None and not is_known_open and not has_login
        if has_links:
            gate.on_link_used = lambda: settings.out.note(f"for another browser: {_link(gate, url)}")
        settings.out.data(f"ready {_link(gate, url) if has_links else url}\n")
        settings.out.flush()
        await _serve(app, bound)


def _check_who(host: str, header: str | None, *, is_loopback: bool, has_login: bool, is_open: bool) -> None:
    if has_login and (header is not None or is_open):
        other = "--i-know-this-is-open" if is_open else "--auth"
        raise click.UsageError(f"--login and {other} exclude each other: each says who may look")
    if has_login and not is_loopback:
        raise click.UsageError(
            f"--login listens on 127.0.0.1 only, not on {host}: it speaks HTTP, and passwords would be read on the way; "
            "put a proxy that speaks HTTPS in front of it, on this machine"
        )
    if not is_loopback and header is None and not is_open:
        raise click.UsageError(
            f"others reach {host}: say who may with --auth header:NAME --trusted-proxy ADDRESS, or --i-know-this-is-open"
        )


def _check_database(url: str) -> None:
    """A database that is down may come back, a URL that nothing here understands never will."""
    from oncelog.errors import MissingLibrary
    from oncelog.recipes.opening import check_database_url

    try:
        check_database_url(url)
    except ConfigurationError as error:
        raise click.UsageError(f"--database: {error}") from error
    except MissingLibrary as error:
        raise Failed(str(error)) from error


def _link(gate: Gate, url: str) -> str:
    return f"{url}#token={gate.new_link_token()}"


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65_535:
        raise click.UsageError(f"--listen {text}: write HOST:PORT; port 0 picks a free one")
    return host.strip("[]"), int(port)


def _header(auth: str | None, proxies: tuple[str, ...]) -> str | None:
    if auth is None:
        if proxies:
            raise click.UsageError("--trusted-proxy needs --auth header:NAME")
        return None
    name = auth.removeprefix(NAMED_HEADER)
    if name == auth or not HEADER_NAME.fullmatch(name):
        raise click.UsageError(f"--auth {auth}: write header:NAME, as in header:X-Forwarded-User")
    if not proxies:
        raise click.UsageError("--auth believes a header: say with --trusted-proxy whose")
    for each in proxies:
        try:
            ipaddress.ip_address(each)
        except ValueError as error:  # it is compared with where a connection comes from: nobody could ever come
            raise click.UsageError(f"--trusted-proxy {each}: write an IP address") from error
    return name


def _check_names(names: tuple[str, ...]) -> None:
    for each in names:
        if not PUBLIC_NAME.fullmatch(each):
            raise click.UsageError(f"--public-name {each!r}: write HOST or HOST:PORT, as the browser's address has it")


def _check_operators(operators: tuple[str, ...], header: str | None, *, allow_writes: bool) -> None:
    if not operators:
        return
    if header is None:
        raise click.UsageError("--operator needs --auth header:NAME: nobody else says who somebody is")
    if not allow_writes:
        raise click.UsageError("--operator needs --allow-writes: without it nobody may act")
    for each in operators:
        if not each or each != each.strip():  # as of a variable that is empty
            raise click.UsageError(f"--operator {each!r}: write the name as the proxy's header has it")


def _fields(masked: str | None) -> frozenset[str]:
    fields = frozenset(each.strip() for each in (masked or "").split(",") if each.strip())
    if masked is not None and not fields:  # as of a variable that is empty: everything would be shown
        raise click.UsageError(f"--mask {masked!r} names no field: write FIELD,..., or --hide-values")
    return fields


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(64)  # whoever follows the link at once is heard
    except OSError as error:
        bound.close()
        raise Failed(f"cannot listen on {host}:{port}: {error.strerror}", "choose another with --listen") from error
    return bound


def server_config(app: Any) -> Any:
    """Of the HTTP server. Left to itself it believes X-Forwarded-For of whoever is on this machine, as if they were another."""
    import uvicorn

    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )


async def _serve(app: Any, bound: socket.socket) -> None:
    """Until a signal cancels it; open streams are ended first, so that nobody is waited for."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are the command's."""
            yield

    server = Server(server_config(app))
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve([bound]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            app.state.end_streams()
            server.should_exit = True
            await serving
            raise
