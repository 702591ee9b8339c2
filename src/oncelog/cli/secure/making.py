"""What `oncelog secure` does: everything anew, or more users, or a new certificate for the broker. Nothing is left half."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from oncelog.cli.command import Settings
from oncelog.cli.output import Failed
from oncelog.cli.secure.credentials import credentials_of, node_id_of, refuse_known, without_a_broker
from oncelog.cli.secure.home import (
    ALWAYS_NAMED,
    CERTIFICATE_LISTENER,
    NOT_STORED_YET,
    PASSWORD_LISTENER,
    Home,
    Server,
    certificate_text,
    client_text,
    make_directory,
    read_authority,
    read_authority_pem,
    replace_file,
    server_text,
    sync_directory,
    write_file,
)
from oncelog.cli.secure.new_directory import new_directory
from oncelog.core.access.listeners import NamedAddress, is_loopback
from oncelog.host.certificate_authority import Authority, described
from oncelog.host.clock import RealClock
from oncelog.lazy_dataclass import dataclass

AUTHORITY_DAYS = 3650
PASSWORD_BYTES = 24
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for. `data_directory` None: inside of the new directory."""

    hosts: Sequence[str]
    listen: NamedAddress
    data_directory: Path | None
    administrator: str
    users: Sequence[str]
    mutual_tls: bool
    days: int

    @property
    def everybody(self) -> list[str]:
        """The administrator and the users, each once."""
        return list(dict.fromkeys((self.administrator, *self.users)))


def names_for(hosts: Sequence[str], listen_host: str) -> list[str]:
    """Host names and addresses of the broker's certificate: those given, else this machine's where others reach it."""
    own = list(hosts)
    if not own and not is_loopback(listen_host):
        own = [socket.getfqdn(), socket.gethostname()] if listen_host in EVERYWHERE else [listen_host]
    return list(dict.fromkeys((*own, *ALWAYS_NAMED)))


def server_of(home: Home, wanted: Wanted) -> Server:
    """What the new server.properties is to say."""
    told = names_for(wanted.hosts, wanted.listen.host)[0]
    data = wanted.data_directory or home.path / "data"
    listeners = [NamedAddress(PASSWORD_LISTENER, wanted.listen.host, wanted.listen.port)]
    if wanted.mutual_tls:
        listeners.append(NamedAddress(CERTIFICATE_LISTENER, wanted.listen.host, wanted.listen.port + 1))
    return Server(
        node_id=node_id_of(data),
        data_directory=str(data),
        listeners=listeners,
        advertised=[NamedAddress(each.name, told, each.port) for each in listeners],
        administrator=wanted.administrator,
    )


async def make_home(home: Home, wanted: Wanted) -> Server:
    """Authority, broker's certificate, configuration, users, and their credentials in the data directory."""
    server = server_of(home, wanted)
    passwords = {user: new_password() for user in wanted.everybody}
    if wanted.data_directory is None:
        with new_directory(home.path) as path:
            _write_home(path, home, server, wanted, passwords, are_stored=True)
            make_directory(path / "data")
            async with without_a_broker(path / "data") as credentials:
                await credentials.store(passwords)
        return server
    refused: Failed | None = None
    async with without_a_broker(wanted.data_directory) as credentials:
        try:
            refuse_known(await credentials.known(), passwords)
            with new_directory(home.path) as path:
                _write_home(path, home, server, wanted, passwords, are_stored=False)
            await credentials.store(passwords)
        except Failed as error:  # and the data directory is closed as it was
            refused = error
    if refused is not None:
        raise refused
    _note_stored(home, passwords)
    return server


def _write_home(
    path: Path, home: Home, server: Server, wanted: Wanted, passwords: dict[str, str], *, are_stored: bool
) -> None:
    authority = Authority(f"oncelog {home.path.name}"[:64], days=(-1, AUTHORITY_DAYS))
    making = Home(path)
    write_file(making.authority, authority.pem, is_public=True)
    write_file(making.authority_key, authority.key_pem)
    names = names_for(wanted.hosts, wanted.listen.host)
    write_file(making.broker, authority.sign(names[0][:64], names, days=(-1, wanted.days), usage="server").pem)
    make_directory(making.clients)
    for user, password in passwords.items():
        make_directory(making.client(user))
        write_user(making.client(user), authority, server, user, password, days=wanted.days)
        if not are_stored:
            write_file(making.client(user) / NOT_STORED_YET, "")
    write_file(making.server_properties, server_text(home, server))


def new_password() -> str:
    """For one user."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def write_user(
    directory: Path, authority: Authority | str, server: Server, user: str, password: str, *, days: int
) -> None:
    """All that a user needs. Where nothing is to be signed, the authority's PEM is enough."""
    pem = authority if isinstance(authority, str) else authority.pem
    write_file(directory / "ca.pem", pem, is_public=True)
    write_file(directory / "password", password + "\n")
    write_file(directory / "client.properties", client_text(server, user, password, pem))
    if not isinstance(authority, str) and server.has_certificates:
        write_certificate(directory, authority, server, user, days=days)


def write_certificate(
    directory: Path,
    authority: Authority,
    server: Server,
    user: str,
    *,
    days: int,
    write: Callable[[Path, str], None] = write_file,
) -> None:
    """A user's certificate, by which it is who it would be by its password."""
    certificate = authority.sign(user, days=(-1, days), usage="client")
    write(directory / "certificate.pem", certificate.pem)
    write(directory / "mutual-tls.properties", certificate_text(server, user, certificate, authority.pem))


async def add_users(settings: Settings, home: Home, server: Server, users: Sequence[str], *, days: int) -> None:
    """More users; those whose credential was not stored when a command before was ended are completed."""
    authority = _authority_that_holds(home) if server.has_certificates and users else read_authority_pem(home)
    unfinished = home.not_stored_yet()
    data = Path(server.data_directory)
    refused: Failed | None = None
    async with credentials_of(settings, home, server.administrator, data) as credentials:
        try:
            refuse_known(await credentials.known(), users)
            for user in users:
                with new_directory(home.client(user)) as path:
                    write_user(path, authority, server, user, new_password(), days=days)
                    write_file(path / NOT_STORED_YET, "")
            passwords = {user: read_password(home, user) for user in (*unfinished, *users)}
            await credentials.store(passwords)
        except Failed as error:
            refused = error
    if refused is not None:
        raise refused
    _note_stored(home, passwords)


def read_password(home: Home, user: str) -> str:
    """Raises Failed."""
    try:
        return (home.client(user) / "password").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"the password of {user} cannot be read: {error}") from error


def _note_stored(home: Home, users: Iterable[str]) -> None:
    for user in users:
        (home.client(user) / NOT_STORED_YET).unlink(missing_ok=True)
        sync_directory(home.client(user))


def broker_names(home: Home) -> list[str]:
    """The names in the broker's certificate. Raises Failed, ConfigurationError."""
    try:
        return list(described(home.broker.read_text("ascii"))[0].names)
    except (OSError, UnicodeDecodeError, IndexError) as error:
        raise Failed(f"{home.broker} cannot be read: {error}", "name its hosts with --host") from error


def renew(home: Home, server: Server, names: Sequence[str], *, days: int, clients: bool) -> None:
    """A new key and certificate for the broker, and with `clients` for every user who has one."""
    authority = _authority_that_holds(home)
    replace_file(home.broker, authority.sign(names[0][:64], names, days=(-1, days), usage="server").pem)
    for user in home.users() if clients else ():
        if (home.client(user) / "certificate.pem").exists():
            write_certificate(home.client(user), authority, server, user, days=days, write=replace_file)


def _authority_that_holds(home: Home) -> Authority:
    authority = read_authority(home)
    if authority.ends_ms <= RealClock().now_ms():
        raise Failed(f"the authority {home.authority} has ended", "make a new directory: oncelog secure")
    return authority
