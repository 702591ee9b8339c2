"""A secured broker's directory: what lies where, what its files say, and what they said when they are read again.

server.properties     what `oncelog serve --config` takes
ca.pem, ca-key.pem    the authority: what clients trust, and what signs (whoever has it can be the broker, or anybody)
broker.pem            the broker's key and certificate
data/                 its log, with the users' credentials
clients/NAME/         all that NAME needs, and nothing of the others: client.properties, password, ca.pem, and with
                      --mutual-tls certificate.pem, mutual-tls.properties
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from oncelog.cli.output import Failed
from oncelog.cli.properties_file import read_properties
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.core.access.listeners import NamedAddress, named_addresses
from oncelog.core.jaas import SCRAM_MODULE
from oncelog.host.certificate_authority import Authority, Certificate
from oncelog.lazy_dataclass import dataclass

MECHANISM = "SCRAM-SHA-512"
PASSWORD_LISTENER, CERTIFICATE_LISTENER = "CLIENTS", "CERTIFICATES"
ALWAYS_NAMED = ("localhost", "127.0.0.1", "::1")  # whoever is on the machine itself
BELIEVED_SUBJECTS = "RULE:^CN=([A-Za-z0-9._@-]+)$/$1/"  # and no other: what this authority signs for clients
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")  # of users: a file's name, a principal, a common name
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
NOT_STORED_YET = ".not-stored-yet"


@dataclass(frozen=True, slots=True)
class Home:
    """The paths."""

    path: Path

    @property
    def server_properties(self) -> Path:
        """The broker's configuration."""
        return self.path / "server.properties"

    @property
    def authority(self) -> Path:
        """What clients trust."""
        return self.path / "ca.pem"

    @property
    def authority_key(self) -> Path:
        """What signs."""
        return self.path / "ca-key.pem"

    @property
    def broker(self) -> Path:
        """The broker's key and certificate."""
        return self.path / "broker.pem"

    @property
    def clients(self) -> Path:
        """A directory for each user."""
        return self.path / "clients"

    def client(self, user: str) -> Path:
        """All that a user needs."""
        return self.clients / user

    def users(self) -> list[str]:
        """Who has a directory here, by name."""
        return sorted(each.name for each in self.clients.iterdir() if NAME.fullmatch(each.name))

    def not_stored_yet(self) -> list[str]:
        """Users that were made, and whose credential was perhaps not stored before the command was ended."""
        return [user for user in self.users() if (self.client(user) / NOT_STORED_YET).exists()]

    @property
    def is_made(self) -> bool:
        """Whether it was made before."""
        return self.server_properties.exists() and self.authority.exists() and self.clients.is_dir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What server.properties says: a listener for passwords, and perhaps one for certificates."""

    node_id: str
    data_directory: str
    listeners: Sequence[NamedAddress]
    advertised: Sequence[NamedAddress]
    administrator: str

    @property
    def has_certificates(self) -> bool:
        """Whether clients may come by a certificate, too."""
        return any(each.name == CERTIFICATE_LISTENER for each in self.listeners)

    def bootstrap_servers(self, listener: str) -> str:
        """Where clients of a listener go."""
        return next(_address(each) for each in self.advertised if each.name == listener)


def _address(each: NamedAddress) -> str:
    return f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}"


def server_text(home: Home, server: Server) -> str:
    """server.properties. The authority's own certificate is trusted for clients' certificates, and nobody else's."""

    def addresses(listed: Sequence[NamedAddress]) -> str:
        return ",".join(f"{each.name}://{_address(each)}" for each in listed)

    protocols = {PASSWORD_LISTENER: "SASL_SSL", CERTIFICATE_LISTENER: "SSL"}
    lines = [
        "# Made by `oncelog secure`. Start the broker: oncelog serve --config FILE",
        f"node.id={server.node_id}",
        f"log.dirs={server.data_directory}",
        f"listeners={addresses(server.listeners)}",
        f"advertised.listeners={addresses(server.advertised)}",
        "listener.security.protocol.map=" + ",".join(f"{e.name}:{protocols[e.name]}" for e in server.listeners),
        f"sasl.enabled.mechanisms={MECHANISM}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={home.broker}",
    ]
    if server.has_certificates:
        prefix = f"listener.name.{CERTIFICATE_LISTENER.lower()}"
        lines += [
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={home.authority}",
            f"{prefix}.ssl.client.auth=required",
            f"{prefix}.ssl.principal.mapping.rules={BELIEVED_SUBJECTS}",
        ]
    lines += [
        "# Users may do what access rules allow them (oncelog acls add), the administrator everything.",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        f"super.users=User:{server.administrator}",
    ]
    return "\n".join(lines) + "\n"


def read_server(home: Home) -> Server:
    """What server.properties says now; others may have changed it. Raises Failed, ConfigurationError."""
    values = read_properties(str(home.server_properties))
    missing = [key for key in ("log.dirs", "listeners", "advertised.listeners", "super.users") if not values.get(key)]
    if missing:
        raise Failed(f"{home.server_properties} has no {missing[0]} any more: it cannot be changed from here")
    try:
        listeners, advertised = (
            named_addresses(values["listeners"]),
            named_addresses(values["advertised.listeners"]),
        )
    except ValueError as error:
        raise Failed(f"{home.server_properties}: {error}") from None
    if not any(each.name == PASSWORD_LISTENER for each in advertised):
        raise Failed(f"{home.server_properties} has no listener {PASSWORD_LISTENER} any more")
    return Server(
        node_id=values.get("node.id", "1"),
        data_directory=values["log.dirs"],
        listeners=listeners,
        advertised=advertised,
        administrator=values["super.users"].split(";")[0].removeprefix("User:"),
    )


def client_text(server: Server, user: str, password: str, authority_pem: str) -> str:
    """client.properties: for oncelog's tools, Apache Kafka's, and Java; it needs no other file."""
    return _properties(
        f"# {user}, by a password over TLS: --command-config of oncelog's tools and of Apache Kafka's, and Java clients",
        {
            "bootstrap.servers": server.bootstrap_servers(PASSWORD_LISTENER),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{SCRAM_MODULE} required username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority_pem,
        },
    )


def certificate_text(server: Server, user: str, certificate: Certificate, authority_pem: str) -> str:
    """mutual-tls.properties: the same with a certificate instead of a password."""
    return _properties(
        f"# {user}, by a certificate: --command-config of oncelog's tools and of Apache Kafka's, and Java clients",
        {
            "bootstrap.servers": server.bootstrap_servers(CERTIFICATE_LISTENER),
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": certificate.key,
            "ssl.keystore.certificate.chain": certificate.chain,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority_pem,
        },
    )


def _properties(head: str, values: dict[str, str]) -> str:
    lines = [head, *(f"{key}={value.replace(chr(10), chr(92) + 'n')}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def read_authority_pem(home: Home) -> str:
    """What clients trust. Raises Failed."""
    return _read(home.authority)


def read_authority(home: Home) -> Authority:
    """The authority that was made once, to sign with. Raises Failed, ConfigurationError."""
    return Authority.of_pem(_read(home.authority), _read(home.authority_key))


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except FileNotFoundError:
        raise Failed(f"{path} is not here", "where it was taken away, bring it back for this") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} cannot be read: {error}") from error


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What a full or failing disk says names no file. Raises Failed."""
    try:
        yield
    except OSError as error:
        if error.errno not in OF_THE_DISK:
            raise
        hint = f"make room on the disk of {path.parent}, and run the same again: what it had begun is put right"
        raise Failed(f"{path} cannot be written: {error.strerror}", hint) from error


def write_file(path: Path, text: str, *, is_public: bool = False) -> None:
    """A new file, readable by nobody else where it is not public. Raises Failed where the disk is full."""
    with _naming(path), open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        if is_public:
            os.fchmod(file.fileno(), 0o644)
        file.write(text)


def replace_file(path: Path, text: str) -> None:
    """Replace a file that nobody else can read: durably, whole or not at all. Raises Failed where the disk is full."""
    with _naming(path):
        _replace_file(path, text)


def _replace_file(path: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # which nobody else can read
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """A new directory that nobody else can look into, whatever the umask says."""
    path.mkdir(mode=0o700)
    path.chmod(0o700)


def sync_directory(path: Path) -> None:
    """Make the names in it durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
