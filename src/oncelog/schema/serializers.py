"""Serializers and deserializers of values with a registered schema: what `value_serializer` and `value_deserializer` take.

With a blocking registry a schema that is not at hand is asked for where it is needed. With an async one the
application waits for it: `await serializer.prepare(topic)` before it sends, `await deserializer.read(record)` for what came.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

from oncelog.client import arguments
from oncelog.client.consumer.deserializing import UNREADABLE
from oncelog.client.records import ConsumerRecord
from oncelog.errors import ConfigurationError, IllegalState, InvalidArgument, RecordDeserialization, SchemaRegistryError
from oncelog.host.recently_used import RecentlyUsed
from oncelog.schema.codecs import PARSED_MAX, Codec
from oncelog.schema.framing import framed, from_headers, unframed
from oncelog.schema.registry import AsyncSchemaRegistry, Exchange, Schema, SchemaRegistry
from oncelog.types import TopicPartition

T = TypeVar("T")
SubjectNameStrategy = Callable[[str, bool, str], str]
Ready = tuple[int, Schema, dict[str, Schema]]


def topic_name_strategy(topic: str, is_key: bool, record_name: str) -> str:  # noqa: ARG001
    """`TOPIC-key` or `TOPIC-value`: the default."""
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name_strategy(topic: str, is_key: bool, record_name: str) -> str:  # noqa: ARG001
    """The record's name, whatever the topic. Raises ConfigurationError where the schema names nothing."""
    if not record_name:
        raise ConfigurationError("record_name_strategy: the schema has no name")
    return record_name


def topic_record_name_strategy(topic: str, is_key: bool, record_name: str) -> str:
    """`TOPIC-RECORD`: several kinds of records in one topic."""
    return f"{topic}-{record_name_strategy(topic, is_key, record_name)}"


class Serializer(Generic[T]):
    """Values of T become bytes with a schema's id before them. None stays None.

    `convert` makes what the codec writes of a T; by default pydantic models and dataclasses become dicts.
    """

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        codec: Codec,
        *,
        is_key: bool = False,
        auto_register_schemas: bool = True,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy = topic_name_strategy,
        convert: Callable[[T], Any] | None = None,
    ) -> None:
        _check_common(registry, codec, is_key)
        arguments.boolean("auto_register_schemas", auto_register_schemas)
        arguments.boolean("use_latest_version", use_latest_version)
        for name, function in (("subject_name_strategy", subject_name_strategy), ("convert", convert)):
            if not callable(function) and (function is not None or name != "convert"):
                raise arguments.refuse(name, function, "a function")
        if use_latest_version and auto_register_schemas:
            raise ConfigurationError("use_latest_version needs auto_register_schemas=False: nothing is registered then")
        if codec.schema is None and not use_latest_version:
            raise ConfigurationError(
                "a serializer needs a schema, or use_latest_version and auto_register_schemas=False"
            )
        self._registry, self._codec, self._is_key = registry, codec, is_key
        self._registers, self._uses_latest = auto_register_schemas, use_latest_version
        self._strategy, self._convert = subject_name_strategy, convert or _plain
        self._ready: RecentlyUsed[Ready] = RecentlyUsed(PARSED_MAX)

    def __call__(self, value: T | None) -> bytes | None:  # noqa: ARG002
        """Only the topic's own serializer can write: a subject is named after the topic."""
        raise IllegalState("this serializer needs to know the topic: use serializer.for_topic(TOPIC)")

    def for_topic(self, topic: str) -> Callable[[T | None], bytes | None]:
        """The function for one topic's records; a Producer asks for it by itself."""
        _check_topic(topic)
        return lambda value: self.serialize(topic, value)

    async def prepare(self, topic: str) -> None:
        """Register or look up the topic's schema, so that `serialize` needs no request. Raises SchemaRegistryError."""
        _check_topic(topic)
        if self._ready.get(topic) is not None:
            return
        steps = self._ready_steps(topic)
        if isinstance(self._registry, AsyncSchemaRegistry):
            await self._registry.run(steps)
        else:
            self._registry.run(steps)

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        """Raises InvalidArgument for a value that does not fit, SchemaRegistryError, and IllegalState where an async registry
        has to be asked first."""
        if value is None:
            return None
        ready = self._ready.get(topic)
        if ready is None:
            _check_topic(topic)
            if isinstance(self._registry, AsyncSchemaRegistry):
                raise IllegalState(
                    f"the schema for topic {topic!r} is not at hand: `await serializer.prepare({topic!r})` first"
                )
            ready = self._registry.run(self._ready_steps(topic))
        schema_id, schema, named = ready
        try:
            payload = self._codec.encode(self._convert(value), schema, named)
        except ValueError as error:
            raise InvalidArgument(f"the {'key' if self._is_key else 'value'} for topic {topic!r} {error}") from error
        return framed(schema_id, payload, self._codec.indexes)

    def _ready_steps(self, topic: str) -> Exchange[Ready]:
        subject = self._strategy(topic, self._is_key, self._codec.record_name)
        if self._uses_latest:
            latest = yield from self._registry.version_steps(subject)
            schema_id, schema = latest.schema_id, latest.schema
            if schema.kind != self._codec.KIND:
                raise SchemaRegistryError(f"subject {subject!r} has a schema of {schema.kind}, not {self._codec.KIND}")
        else:
            schema = yield from self._codec.own_steps(self._registry, register=self._registers)
            schema_id = yield from self._registry.id_steps(subject, schema, register=self._registers)
        named = yield from self._registry.references_steps(schema)
        ready = schema_id, schema, named
        self._ready.put(topic, ready)
        return ready


class Deserializer(Generic[T]):
    """Bytes with a schema's identity, before them or in the record's header, become values of T.

    `into` is a function of what the codec reads, a pydantic model, or a dataclass whose fields are named as the schema's.
    """

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        codec: Codec,
        *,
        is_key: bool = False,
        into: Callable[..., T] | None = None,
    ) -> None:
        _check_common(registry, codec, is_key)
        if into is not None and not callable(into):
            raise arguments.refuse("into", into, "a function, a pydantic model or a dataclass")
        self._registry, self._codec, self._is_key = registry, codec, is_key
        self._into = _maker(into)
        self._named: RecentlyUsed[dict[str, Schema]] = RecentlyUsed(PARSED_MAX)
        self._own_named: dict[str, Schema] | None = None
        if codec.schema is None or not codec.schema.references:
            self._own_named = {}

    def __call__(self, content: bytes | None) -> T | None:
        """What stands before `content` says the schema. Raises ValueError, SchemaRegistryError."""
        return self.deserialize(content)

    def deserialize(self, content: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> T | None:
        """Raises ValueError for what cannot be read, SchemaRegistryError where the registry cannot be asked."""
        if content is None:
            return None
        if not isinstance(content, bytes | bytearray | memoryview):
            raise InvalidArgument(f"a deserializer reads bytes, not {type(content).__name__}")
        identity, indexes, payload = self._parts(content, headers)
        schema = self._registry.at_hand(identity)
        named = self._named.get(identity)
        if schema is None or named is None or self._own_named is None:
            if isinstance(self._registry, AsyncSchemaRegistry):
                raise ValueError(f"schema {identity} is not at hand: use `await deserializer.read(record)`")
            schema, named = self._registry.run(self._found_steps(identity))
        return self._made(payload, schema, named, indexes)

    def from_record(self, record: ConsumerRecord) -> T | None:
        """The key or value of a record; a Consumer calls this, so that headers are seen."""
        return self.deserialize(record.key if self._is_key else record.value, record.headers)

    async def read(self, record: ConsumerRecord) -> T | None:
        """The key or value of a record; waits for its schema where it has to. Raises RecordDeserialization for this record
        alone, and SchemaRegistryError where the registry cannot be asked."""
        content = record.key if self._is_key else record.value
        if content is None:
            return None
        try:
            identity, indexes, payload = self._parts(content, record.headers)
            steps = self._found_steps(identity)
            if isinstance(self._registry, AsyncSchemaRegistry):
                schema, named = await self._registry.run(steps)
            else:
                schema, named = self._registry.run(steps)
            return self._made(payload, schema, named, indexes)
        except UNREADABLE as error:
            where, what = TopicPartition(record.topic, record.partition), "key" if self._is_key else "value"
            message = f"{where} at offset {record.offset}: the {what} cannot be read: {error}"
            raise RecordDeserialization(message, where, record.offset) from error

    def _parts(
        self, content: bytes, headers: Iterable[tuple[str, bytes | None]]
    ) -> tuple[int | str, tuple[int, ...], bytes]:
        has_indexes = self._codec.KIND == "PROTOBUF"
        header = from_headers(headers, is_key=self._is_key)
        if header is not None:
            identity, indexes, _ = unframed(header, has_indexes=has_indexes)
            return identity, indexes, content
        identity, indexes, start = unframed(content, has_indexes=has_indexes)
        return identity, indexes, content[start:]

    def _found_steps(self, identity: int | str) -> Exchange[tuple[Schema, dict[str, Schema]]]:
        schema = yield from self._registry.schema_steps(identity)
        named = self._named.get(identity)
        if named is None:
            named = yield from self._registry.references_steps(schema)
            self._named.put(identity, named)
        if self._own_named is None:
            assert self._codec.schema is not None
            self._own_named = yield from self._registry.references_steps(self._codec.schema)
        return schema, named

    def _made(self, payload: bytes, schema: Schema, named: dict[str, Schema], indexes: tuple[int, ...]) -> T:
        if schema.kind != self._codec.KIND:
            raise ValueError(f"was written as {schema.kind}, not {self._codec.KIND}")
        if self._codec.indexes is not None and indexes != self._codec.indexes:
            raise ValueError(f"is message {indexes} of its file, not {self._codec.indexes} ({self._codec.record_name})")
        return self._into(self._codec.decode(payload, schema, named, self._own_named or {}))


def _check_common(registry: Any, codec: Any, is_key: Any) -> None:
    """Raises InvalidArgument: what is wrong here would otherwise show at the first record, as that record's fault."""
    if not isinstance(registry, SchemaRegistry | AsyncSchemaRegistry):
        hint = "SchemaRegistry(URL) makes one" if isinstance(registry, str) else ""
        raise arguments.refuse("registry", registry, "a SchemaRegistry or an AsyncSchemaRegistry", hint)
    if isinstance(codec, type) or not all(hasattr(codec, name) for name in ("encode", "decode", "own_steps")):
        hint = f"{codec.__name__}(SCHEMA) makes one" if isinstance(codec, type) else ""
        raise arguments.refuse("codec", codec, "an AvroCodec, a JsonCodec or a ProtobufCodec", hint)
    arguments.boolean("is_key", is_key)


def _check_topic(topic: Any) -> None:
    """A subject is named after it. Raises InvalidArgument."""
    if not arguments.text("topic", topic):
        raise arguments.refuse("topic", topic, "a topic's name")


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # pydantic's
    if dump is not None:
        return dump()
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _maker(into: Callable[..., T] | None) -> Callable[[Any], T]:
    if into is None:
        return lambda value: cast("T", value)
    validate = getattr(into, "model_validate", None)
    if validate is not None:
        return cast("Callable[[Any], T]", validate)
    if dataclasses.is_dataclass(into):
        make: Callable[..., Any] = into
        return lambda value: cast("T", make(**value))
    return cast("Callable[[Any], T]", into)
