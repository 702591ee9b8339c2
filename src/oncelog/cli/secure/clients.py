"""What each kind of client needs to come in as a user: text to copy, with the names of files and no secret."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from oncelog.cli.secure.home import CERTIFICATE_LISTENER, MECHANISM, PASSWORD_LISTENER, Server
from oncelog.core.jaas import SCRAM_MODULE
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Snippet:
    """`client`: whose it is; `files`: what it reads."""

    client: str
    files: tuple[str, ...]
    text: str


def snippets(server: Server, user: str, directory: Path) -> list[Snippet]:
    """For every kind of client; `directory` is the user's."""
    properties, password, authority = (str(directory / name) for name in ("client.properties", "password", "ca.pem"))
    servers = server.bootstrap_servers(PASSWORD_LISTENER)
    found = [
        Snippet("oncelog's tools", (properties,), f"oncelog --command-config {quote(properties)} topics list"),
        Snippet(
            "Apache Kafka's tools",
            (properties,),
            f"kafka-topics.sh --bootstrap-server {servers} --command-config {quote(properties)} --list",
        ),
        Snippet("oncelog in Python", (password, authority), _python(servers, user, password, authority)),
        Snippet("confluent-kafka", (password, authority), _confluent(servers, user, password, authority)),
        Snippet("Java", (properties,), f'properties.load(new FileInputStream("{properties}"));'),
        Snippet("Spark", (password, authority), _spark(servers, user, password, authority)),
    ]
    if server.has_certificates:
        own = str(directory / "mutual-tls.properties")
        found.append(
            Snippet(
                "with a certificate",
                (own, str(directory / "certificate.pem")),
                f"oncelog --command-config {quote(own)} topics list  # at {server.bootstrap_servers(CERTIFICATE_LISTENER)}",
            )
        )
    return found


def _python(servers: str, user: str, password: str, authority: str) -> str:
    return f"""oncelog.Producer(
    bootstrap_servers="{servers}",
    security_protocol="SASL_SSL",
    ssl_ca_location="{authority}",
    sasl_mechanism="{MECHANISM}",
    sasl_username="{user}",
    sasl_password=pathlib.Path("{password}").read_text().strip(),
)"""


def _confluent(servers: str, user: str, password: str, authority: str) -> str:
    return f"""confluent_kafka.Producer({{
    "bootstrap.servers": "{servers}",
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "{authority}",
    "sasl.mechanism": "{MECHANISM}",
    "sasl.username": "{user}",
    "sasl.password": pathlib.Path("{password}").read_text().strip(),
}})"""


def _spark(servers: str, user: str, password: str, authority: str) -> str:
    """Spark redacts options by their names, `password` among them and `sasl.jaas.config` not."""
    return f"""options = {{
    "kafka.bootstrap.servers": "{servers}",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.location": "{authority}",
    "kafka.sasl.mechanism": "{MECHANISM}",
    "kafka.sasl.username": "{user}",
    "kafka.sasl.password": pathlib.Path("{password}").read_text().strip(),
}}
spark.readStream.format("oncelog").options(**options)
# format "kafka" has, instead of the last two, "kafka.sasl.jaas.config":
# '{SCRAM_MODULE} required username="..." password="...";'"""
