"""Client quotas: what AlterClientQuotas may change, and which ones DescribeClientQuotas finds (KIP-546).

Whom a quota is for is an entity: user, client id, both of them, or an IP address; a part without a name is its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from oncelog.core.metadata.cluster import REQUEST_PERCENTAGE, Entity, quota_entity
from oncelog.core.metadata.refusal import Refusal, limit_refusal
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.cluster_metadata import ClientQuotaRecord
from oncelog.wire.messages.alter_client_quotas import EntityData as AlteredEntity
from oncelog.wire.messages.alter_client_quotas import EntryData as AlteredEntry
from oncelog.wire.messages.alter_client_quotas import EntryDataResponse
from oncelog.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
_LONG_MAX, _INT_MAX = 2**63 - 1, 2**31 - 1
# Key -> the largest value, where it must be whole; None where it may have a fraction.
_CLIENT_KEYS: dict[str, tuple[str, int | None]] = {
    PRODUCER_BYTE_RATE: ("LONG", _LONG_MAX),
    CONSUMER_BYTE_RATE: ("LONG", _LONG_MAX),
    REQUEST_PERCENTAGE: ("DOUBLE", None),
    CONTROLLER_MUTATION_RATE: ("DOUBLE", None),
}
_IP_KEYS: dict[str, tuple[str, int | None]] = {CONNECTION_CREATION_RATE: ("INT", _INT_MAX)}
_FRACTION_MAX = 1e-6
_EXACT, _DEFAULT, _ANY = 0, 1, 2
DEFAULT_COUNT_MAX = 10_000

Quotas = Mapping[Entity, Mapping[str, float]]


def alter_quotas(
    quotas: Quotas, entries: Sequence[AlteredEntry], count_max: int = DEFAULT_COUNT_MAX
) -> tuple[list[ClientQuotaRecord], list[EntryDataResponse]]:
    """The records to write, and one result per entity; an entity with one bad value is not changed at all.

    New entities beyond `count_max` are refused, POLICY_VIOLATION.
    """
    records: list[ClientQuotaRecord] = []
    results = []
    known = set(quotas)
    for entry in entries:
        # Of a type named twice the last one stands, as in Kafka.
        entry.entity = list({part.entity_type: part for part in entry.entity}.values())
        refusal = _entity_refusal(entry.entity) or _values_refusal(entry)
        changes = _changes(quotas, entry) if refusal is None else []
        entity = _entity(entry)
        if entity not in known and not all(change.is_removed for change in changes):
            if len(known) >= count_max:
                refusal, changes = limit_refusal("oncelog.max.client.quotas", count_max, "entities with quotas"), []
            else:
                known.add(entity)
        records += changes
        results.append(
            EntryDataResponse(
                error_code=refusal.error_code if refusal else ErrorCode.NONE,
                error_message=refusal.message if refusal else None,
                entity=entry.entity,
            )
        )
    return records, results


def _entity(entry: AlteredEntry) -> Entity:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def _changes(quotas: Quotas, entry: AlteredEntry) -> list[ClientQuotaRecord]:
    entity = _entity(entry)
    present = quotas.get(entity, {})
    wanted = {op.key: None if op.remove else op.value for op in entry.ops}
    return [
        ClientQuotaRecord(entity=quota_entity(entity), key=key, value=value or 0.0, is_removed=value is None)
        for key, value in wanted.items()
        if present.get(key) != value
    ]


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _entity_refusal(entity: Sequence[AlteredEntity]) -> Refusal | None:
    if not entity:
        return _invalid("Invalid empty client quota entity")
    seen: dict[str, str | None] = {}
    for part in entity:
        if part.entity_type not in (USER, CLIENT_ID, IP):
            return _invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            return _invalid(f"Empty {part.entity_type} not supported")
        seen[part.entity_type] = part.entity_name
    if IP in seen:
        if len(seen) > 1:
            return _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
        name = seen[IP]
        if name is not None and not _is_address(name):
            return _invalid(f"{name} is not a valid IP or resolvable host.")
    return None


def _is_address(name: str) -> bool:
    # Kafka also looks names up; that would need the network, and connections are known by their addresses anyway.
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _values_refusal(entry: AlteredEntry) -> Refusal | None:
    names = [op.key for op in entry.ops]
    if len(set(names)) < len(names):
        parts = ", ".join(f"{part.entity_type}={part.entity_name}" for part in entry.entity)
        return _invalid(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{parts}}})")
    keys = _IP_KEYS if any(part.entity_type == IP for part in entry.entity) else _CLIENT_KEYS
    for op in entry.ops:
        if op.remove:
            continue
        if op.key not in keys:
            return _invalid(f"Invalid configuration key {op.key}")
        kind, most = keys[op.key]
        if not op.value > 0:
            return _invalid(f"Quota {op.key} must be greater than 0")
        if most is not None and op.value > most:
            return _invalid(f"Proposed value for {op.key} is too large for a {kind}.")
        if most is not None and abs(op.value - round(op.value)) > _FRACTION_MAX:
            return _invalid(f"{op.key} cannot be a fractional value.")
    return None


def describe_quotas(quotas: Quotas, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Every entity that has what the filter's components ask for; strict: and nothing else."""
    refusal = _filter_refusal(request.components)
    if refusal is not None:
        return DescribeClientQuotasResponse(error_code=refusal.error_code, error_message=refusal.message, entries=None)
    exact = {each.entity_type: each.match for each in request.components if each.match_type != _ANY}
    present = {each.entity_type for each in request.components if each.match_type == _ANY}
    found = []
    for entity, values in quotas.items():
        names = dict(entity)
        if request.strict and len(names) != len(exact) + len(present):
            continue
        if all(kind in names and names[kind] == name for kind, name in exact.items()) and present <= names.keys():
            found.append(_described(entity, values))
    return DescribeClientQuotasResponse(entries=found)


def _described(entity: Entity, values: Mapping[str, float]) -> EntryData:
    parts = quota_entity(entity)
    return EntryData(
        entity=[EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in parts],
        values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
    )


def _filter_refusal(components: Sequence[ComponentData]) -> Refusal | None:
    seen: set[str] = set()
    for each in components:
        if not each.entity_type:
            return _invalid("Invalid empty entity type.")
        if each.entity_type in seen:
            return _invalid(f"Entity type {each.entity_type} cannot appear more than once in the filter.")
        if each.entity_type not in (USER, CLIENT_ID, IP):
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {each.entity_type}")
        if each.match_type == _EXACT and each.match is None:
            return _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if each.match_type in (_DEFAULT, _ANY) and each.match is not None:
            kind = "DEFAULT" if each.match_type == _DEFAULT else "SPECIFIED"
            return _invalid(f"Request specified MATCH_TYPE_{kind}, but also specified a match string.")
        if each.match_type not in (_EXACT, _DEFAULT, _ANY):
            return _invalid(f"Unknown match type {each.match_type}")
        seen.add(each.entity_type)
    if IP in seen and len(seen) > 1:
        return _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return None
