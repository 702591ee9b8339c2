"""`oncelog secure`: an authority, certificates, first users and the configuration of a broker that others may reach."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from oncelog.cli.command import Settings, command
from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.output import columns
from oncelog.cli.secure.home import NAME, PASSWORD_LISTENER, Home, Server, read_server
from oncelog.core.access.listeners import ListenerInvalid, NamedAddress, named_address
from oncelog.host.certificate_authority import check_library

DEFAULT_PORT = 9093
DAYS_MAX = 3650
OF_THE_FIRST_RUN = {"listen": "--listen", "data_dir": "--data-dir", "admin": "--admin"}


@command(name="secure", changes=True)
@click.argument("directory", metavar="DIRECTORY", type=click.Path(file_okay=False))
@click.option("--user", "users", multiple=True, metavar="NAME", help="A user to make; repeat it.")
@click.option("--admin", metavar="NAME", help="The super user, who is made as well [default: admin].")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name or address of the broker, for its certificate; the first is told to clients; repeat it.",
)
@click.option(
    "--listen", metavar="HOST:PORT", help=f"[default: 127.0.0.1:{DEFAULT_PORT}; 0.0.0.0:{DEFAULT_PORT} with --host]"
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where the log is, or is to be [default: DIRECTORY/data].",
)
@click.option("--mutual-tls", is_flag=True, help="A second listener, at the next port, and certificates for users.")
@click.option("--renew", is_flag=True, help="A new certificate for the broker; with --mutual-tls for users, too.")
@click.option(
    "--days",
    type=WholeNumberRange(1, DAYS_MAX),
    default=397,
    show_default=True,
    help="How long new certificates hold.",
)
@click.option("--show-passwords", is_flag=True, help="Print the passwords of the users named, or of all.")
@click.pass_context
async def secure(ctx: click.Context, /, directory: str, **options: Any) -> None:
    """Make a DIRECTORY with all that a secured broker and its first users need: SCRAM-SHA-512 over TLS.

    Nothing that is there is overwritten. On a DIRECTORY made before, --user adds users, --renew makes a new certificate, and
    without either nothing is changed: what clients need is shown again. `oncelog doctor --config DIRECTORY/server.properties`
    looks at the result.
    """
    settings = ctx.ensure_object(Settings)
    home = Home(Path(_plain_path(directory)))
    for user in (*options["users"], *([options["admin"]] if options["admin"] else [])):
        if not NAME.fullmatch(user) or user == "ANONYMOUS":
            raise click.UsageError(f"user {user[:80]!r}: 1 to 64 letters, digits and . _ @ -, and not ANONYMOUS")
    options["has_days"] = ctx.get_parameter_source("days") is ParameterSource.COMMANDLINE
    shown = await (_again(settings, home, options) if home.is_made else _first(settings, home, options))
    if shown is not None:
        _show(settings, home, *shown, show_passwords=options["show_passwords"])


async def _first(settings: Settings, home: Home, options: Mapping[str, Any]) -> tuple[Server, list[str]] | None:
    """Everything anew; of whom to show what clients need. None: nothing was done."""
    from oncelog.cli.secure.making import Wanted, make_home, names_for

    check_library()
    if options["renew"]:
        raise click.UsageError(f"--renew: {home.path} was not made by `oncelog secure`")
    _refuse_others_directory(home)
    hosts = list(dict.fromkeys(map(_host, options["hosts"])))
    wanted = Wanted(
        hosts=hosts,
        listen=_listen(options["listen"], hosts),
        data_directory=None if options["data_dir"] is None else Path(_plain_path(options["data_dir"])),
        administrator=options["admin"] or "admin",
        users=options["users"],
        mutual_tls=options["mutual_tls"],
        days=options["days"],
    )
    names = names_for(hosts, wanted.listen.host)
    ports = f"{wanted.listen.port} and {wanted.listen.port + 1}" if wanted.mutual_tls else f"{wanted.listen.port}"
    steps = [
        {"step": "authority", "what": f"{home.authority}, {home.authority_key}"},
        {"step": "certificate", "what": f"{home.broker} for {', '.join(names)}, {wanted.days} days"},
        {"step": "configuration", "what": f"{home.server_properties}, listening on {wanted.listen.host}:{ports}"},
        *({"step": "user", "what": f"{home.client(user)}"} for user in wanted.everybody),
        {"step": "credentials", "what": f"of them, in {wanted.data_directory or home.path / 'data'}"},
    ]
    what, more = f"make {home.path}", [f"{step['step']}: {step['what']}" for step in steps]
    is_change = wanted.data_directory is not None and wanted.data_directory.exists()
    if (settings.dry_run or is_change) and not settings.confirm(what, home.path.name, more=more, plan=steps):
        return None
    server = await make_home(home, wanted)
    settings.out.note(f"made {home.path}", *more)
    return server, list(wanted.users) or [wanted.administrator]


async def _again(settings: Settings, home: Home, options: Mapping[str, Any]) -> tuple[Server, list[str]] | None:
    """More users, a new certificate, or nothing; of whom to show what clients need. None: nothing was done."""
    from oncelog.cli.secure.making import add_users, broker_names, names_for, renew

    server = read_server(home)
    _refuse_what_was_decided(home, server, options)
    new_users = any(user not in home.users() for user in options["users"])
    if options["has_days"] and not options["renew"] and not (new_users and server.has_certificates):
        raise click.UsageError(f"--days {options['days']}: no certificate is made without --renew")
    is_renewed, users = options["renew"], [user for user in dict.fromkeys(options["users"]) if user not in home.users()]
    unfinished = home.not_stored_yet()
    steps = [
        *({"step": "user", "what": f"{home.client(user)}, and a credential in the broker"} for user in users),
        *({"step": "credential", "what": f"of {user}, who was made before"} for user in unfinished),
    ]
    names: list[str] = []
    if is_renewed:
        given = list(map(_host, options["hosts"]))
        names = names_for(given, "127.0.0.1") if given else broker_names(home)
        clients = " and the users'" if options["mutual_tls"] else ""
        text = f"a new key and certificate for {', '.join(names)}{clients}, {options['days']} days"
        steps.append({"step": "certificate", "what": text})
    if not steps:
        settings.out.note(f"{home.path} is there already, with {', '.join(home.users())}: nothing is changed")
        return server, list(options["users"]) or [server.administrator]
    more = [f"{step['step']}: {step['what']}" for step in steps]
    if not settings.confirm(f"change {home.path}", home.path.name, more=more, plan=steps):
        return None
    if users or unfinished:
        await add_users(settings, home, server, users, days=options["days"])
    if is_renewed:
        renew(home, server, names, days=options["days"], clients=options["mutual_tls"])
        settings.out.note("a broker that runs takes the new certificate over within seconds; its log says `reload`")
    return server, users


def _refuse_what_was_decided(home: Home, server: Server, options: Mapping[str, Any]) -> None:
    given = [name for key, name in OF_THE_FIRST_RUN.items() if options[key] is not None]
    if options["hosts"] and not options["renew"]:
        given.append("--host")
    if options["admin"] == server.administrator:
        given = [name for name in given if name != "--admin"]
    if given:
        way = "--renew changes the certificate's names" if "--host" in given else f"change {home.server_properties}"
        raise click.UsageError(f"{home.path} is there already, and {given[0]} is for its first run: {way}")
    if options["mutual_tls"] and not server.has_certificates:
        raise click.UsageError(f"{home.path} was made without --mutual-tls: it has no listener for certificates")


def _refuse_others_directory(home: Home) -> None:
    if not home.path.is_dir() or not any(home.path.iterdir()):
        return
    if (home.path / "meta.properties").exists():
        raise click.UsageError(
            f"{home.path} is a broker's data directory: name a new DIRECTORY, and this one with --data-dir {home.path}"
        )
    raise click.UsageError(f"{home.path} is not empty, and was not made by `oncelog secure`: name a new DIRECTORY")


def _plain_path(text: str) -> str:
    """Absolute. What a properties file cannot say, or the broker takes for a list, is refused."""
    path = str(Path(text).absolute()) if "\0" not in text else text
    if not text or not path.isprintable() or any(letter in path for letter in ',\\"') or path != path.strip():
        raise click.UsageError(f"{text[:80]!r}: a path that a configuration can hold has no comma, quote or backslash")
    return str(Path(path).resolve())


def _host(text: str) -> str:
    """A name as a certificate can have it."""
    host = text.removeprefix("[").removesuffix("]")
    letters = host.replace(".", "").replace("-", "").replace("_", "").replace(":", "")
    if not host.isascii() or not letters.isalnum() or len(host) > 253 or (":" in host and not _is_ipv6(host)):
        raise click.UsageError(f"--host {text[:80]!r}: expected a name such as kafka.example.com, or an address")
    return host


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def _listen(text: str | None, hosts: Sequence[str]) -> NamedAddress:
    if text is None:
        return NamedAddress(PASSWORD_LISTENER, "0.0.0.0" if hosts else "127.0.0.1", DEFAULT_PORT)  # noqa: S104
    try:
        found = named_address(text)
    except ListenerInvalid as error:
        raise click.UsageError(f"--listen: {error}") from None
    if "://" in text or not 0 < found.port < 65535 or not found.host:
        raise click.UsageError(f"--listen {text[:80]!r}: expected HOST:PORT, with a port from 1 to 65534")
    return NamedAddress(PASSWORD_LISTENER, _host(found.host), found.port)


def _show(settings: Settings, home: Home, server: Server, users: Sequence[str], *, show_passwords: bool) -> None:
    """How to start the broker, and what clients of these users need; for a person that of the first of them."""
    from oncelog.cli.secure.clients import snippets
    from oncelog.cli.secure.making import read_password

    out, start = settings.out, f"oncelog serve --config {shlex.quote(str(home.server_properties))}"
    rows: list[dict[str, Any]] = [
        {"client": "the broker", "user": None, "files": [str(home.server_properties)], "snippet": start}
    ]
    for user in dict.fromkeys(users if out.is_machine or out.format == "tsv" else users[:1]):
        for each in snippets(server, user, home.client(user)):
            rows.append({"client": each.client, "user": user, "files": list(each.files), "snippet": each.text})
    for user in (users or home.users()) if show_passwords else ():
        rows.append({"client": "password", "user": user, "files": [], "snippet": read_password(home, user)})
    if out.is_machine or out.format == "tsv":
        out.rows(columns("client", "user", "files", "snippet"), rows)
        return
    for row in rows:
        who = f" ({row['user']})" if row["user"] else ""
        out.data(f"# {row['client']}{who}\n{row['snippet']}\n")
    if len(users) > 1:
        out.note(f"the same for the others: give each its own directory in {home.clients}, and no other")
    admin = home.client(server.administrator) / "client.properties"
    if users:
        rule = "--topic T --principal User:NAME --operation read --operation write"
        out.note(f"users may do what rules allow: oncelog --command-config {shlex.quote(str(admin))} acls add {rule}")
