"""What is never shown: passwords, keys and tokens in answers, errors, logs and files."""

from __future__ import annotations

import os
import stat

from evidence.attacks.attack import attack
from evidence.attacks.peer import CLOSED, said
from evidence.attacks.target import SECRET_KEY, Target
from evidence.world.security import SCRAM_PASSWORD, SCRAM_USER, USERS
from oncelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER = 4
SECRETS = (*USERS.values(), SECRET_KEY, SCRAM_PASSWORD, "PRIVATE KEY")


def everything() -> DescribeConfigsRequest:
    """The broker's whole configuration, with synonyms."""
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=False)


def setting(name: str, value: str) -> IncrementalAlterConfigsRequest:
    """One key of the broker."""
    change = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[change])
    return IncrementalAlterConfigsRequest(resources=[resource])


async def changed(target: Target, name: str, value: str) -> str:
    """What the administrator is told who sets a key of the broker; the words must not tell what a file holds."""
    peer = await target.come_in("admin")
    answer = await peer.ask(setting(name, value), 1)
    message = answer.responses[0].error_message or ""
    leaked = [word for word in ("root:", *SECRETS) if word in message]
    return f"{said(answer)}{' with its content' if leaked else ''}"


@attack("not one")
async def secrets_in_the_configuration(target: Target) -> str:
    """The administrator describes the broker's whole configuration, with synonyms."""
    peer = await target.come_in("admin")
    answer = await peer.ask(everything(), 4)
    text = repr(answer)
    assert "listeners" in text
    return "shown" if any(secret in text for secret in SECRETS) else "not one"


@attack("31 or 29", "denied")
async def the_configuration_by_anybody(target: Target) -> str:
    """Alice describes the broker's configuration."""
    peer = await target.come_in()
    answer = await peer.ask(everything(), 4)
    return "31 or 29" if said(answer) in ("31", "29") else said(answer)


@attack("mechanism and iterations")
async def stored_keys(target: Target) -> str:
    """The administrator describes users' credentials: salts and stored keys would allow guessing offline."""
    peer = await target.come_in("admin")
    answer = await peer.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    names = {field.name for result in answer.results for info in result.credential_infos for field in info.FIELDS}
    assert SCRAM_USER in {each.user for each in answer.results}
    return "mechanism and iterations" if names == {"mechanism", "iterations"} else str(sorted(names))


@attack("42")
async def another_file_as_keystore(target: Target) -> str:
    """The administrator names /etc/passwd as the listener's key store: the error would quote it."""
    return await changed(target, "listener.name.tls.ssl.keystore.location", "/etc/passwd")


@attack("42")
async def a_password_of_plain_by_request(target: Target) -> str:
    """The administrator sets a JAAS line with a password in it by a request, which would be stored in clear."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return await changed(target, "listener.name.sasl.plain.sasl.jaas.config", f'{module} user_mallory="word";')


@attack("42")
async def a_class_to_load(target: Target) -> str:
    """The administrator names a class of a JNDI login module (CVE-2023-25194)."""
    module = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://127.0.0.1:1/x";'
    return await changed(target, "listener.name.sasl.plain.sasl.jaas.config", module)


@attack("not resolved")
async def a_file_in_a_value(target: Target) -> str:
    """The administrator sets a topic's or broker's value to `${file:/etc/passwd:root}` and reads it back."""
    value = "${file:/etc/passwd:root}"
    peer = await target.come_in("admin")
    await peer.ask(setting("oncelog.nothing.like.it", value), 1)
    answer = await peer.ask(everything(), 4)
    return "resolved" if "root:x:" in repr(answer) else "not resolved"


@attack("none for others", not_asked="not asked here: its metadata files are 0644 (measured once)")
async def the_brokers_files(target: Target) -> str:
    """Another user of the machine reads the broker's files: records, stored keys."""
    root = target.files.directory / "data"
    mode = stat.S_IMODE(os.stat(root).st_mode)
    return f"open, mode {mode:04o}" if mode & stat.S_IRWXO else "none for others"


@attack(f"58, {CLOSED}", "parts|unknown")
async def a_password_in_the_names_place(target: Target) -> str:
    """Not an attack but a slip: bytes of a login in a wrong order; the log must not have the whole token."""
    from evidence.attacks.peer import handshake, token

    peer = await target.connect()
    target.secrets.add("slip-secret-of-somebody")
    return await peer.converse(handshake(), token(b"\0bob\0slip-secret-of-somebody\0more"))
