"""A broker that others may reach: TLS, users with passwords, and rights; a user reads what another wrote.

`TestBroker` makes certificates and users for it (`pip install '.[security]'`); docs/security.md has the same as a
`server.properties`.
"""

from oncelog import errors, sync
from oncelog.client.admin.acls import Acl
from oncelog.testing import TestBroker

RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def main() -> tuple[list[bytes | None], str]:
    users = {"admin": "a-secret", "writer": "w-secret", "reader": "r-secret"}
    with TestBroker(RULES, security="SASL_SSL", users=users) as broker:
        with sync.Admin(**broker.client_options("admin")) as admin:
            admin.create_topics(["orders"])
            admin.create_acls(
                [Acl("topic", "orders", "User:writer", "write"), Acl("topic", "orders", "User:reader", "read")]
            )
        with sync.Producer(**broker.client_options("writer")) as producer:
            producer.send("orders", b"3 apples").result()
        with sync.Consumer("orders", auto_offset_reset="earliest", **broker.client_options("reader")) as consumer:
            read = [record.value for record in consumer.poll(timeout_ms=60_000)]
        with sync.Producer(**broker.client_options("reader")) as producer:
            try:
                producer.send("orders", b"3 pears").result()
            except (errors.TopicAuthorization, errors.ClusterAuthorization) as error:
                return read, type(error).__name__
    raise AssertionError("who may only read has written")


if __name__ == "__main__":
    print(*main())
