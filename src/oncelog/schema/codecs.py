"""Payloads of the three kinds of schema, by fastavro, jsonschema and Google's protobuf.

A codec turns a value into bytes under its own schema, and bytes of a writer's schema into a value. Whatever is wrong with a
value or with bytes is a ValueError of one line.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Protocol

from oncelog.errors import ConfigurationError, need
from oncelog.host.recently_used import RecentlyUsed
from oncelog.schema.registry import Exchange, Registry, Schema

PARSED_MAX = 1000
BROKEN = (
    ValueError,
    TypeError,
    KeyError,
    ArithmeticError,
    AttributeError,
    IndexError,
    EOFError,
    RecursionError,
    MemoryError,
    re.error,
)


NONE: Mapping[str, Schema] = {}


class Codec(Protocol):
    """What a serializer or a deserializer is made of."""

    KIND: ClassVar[str]

    @property
    def schema(self) -> Schema | None:
        """What is written under, or None: whatever the writer's is."""

    @property
    def record_name(self) -> str:
        """For the subject strategies that name a record."""

    @property
    def indexes(self) -> tuple[int, ...] | None:
        """Which message of the file; None but for Protobuf."""

    def own_steps(self, _registry: Registry, *, register: bool) -> Exchange[Schema]:
        """The schema to write under, with references that the registry knows."""

    def encode(self, value: Any, schema: Schema, named: Mapping[str, Schema]) -> bytes:
        """A payload."""

    def decode(
        self, payload: bytes, schema: Schema, named: Mapping[str, Schema], own_named: Mapping[str, Schema] = NONE
    ) -> Any:
        """A value, of a payload written under `schema`, which names `named`; the codec's own one names `own_named`."""


class AvroCodec:
    """Avro. A reader's `schema` resolves what writers wrote (defaults, added and removed fields); None reads it as written.

    A schema is its JSON, as text or as what that gives (a dict, a list).
    """

    KIND: ClassVar[str] = "AVRO"
    indexes: tuple[int, ...] | None = None

    def __init__(self, schema: Schema | str | Mapping[str, Any] | list[Any] | None = None) -> None:
        need("AvroCodec", "fastavro", "schema")
        self.schema = _schema(schema, self.KIND)
        if self.schema is not None and not self.schema.references:
            try:
                self._parsed(self.schema, {})
            except ValueError as error:
                raise ConfigurationError(f"avro: {error}") from error

    @property
    def record_name(self) -> str:
        """The record's full name; none of a schema that is no record's (`"string"`, a union)."""
        content = _object(self.schema)
        name, namespace = content.get("name", ""), content.get("namespace")
        return f"{namespace}.{name}" if namespace and "." not in name else str(name)

    @cached_property
    def _cache(self) -> RecentlyUsed[Any]:
        return RecentlyUsed(PARSED_MAX)

    def _parsed(self, schema: Schema, named: Mapping[str, Schema]) -> Any:
        key = _key(schema, named)
        found = self._cache.get(key)
        if found is None:
            import fastavro
            from fastavro.schema import SchemaParseException

            known: dict[str, Any] = {}
            try:
                for each in named.values():
                    fastavro.parse_schema(json.loads(each.text), named_schemas=known)
                found = fastavro.parse_schema(json.loads(schema.text), named_schemas=known)
            except (*BROKEN, SchemaParseException) as error:
                raise ValueError(f"the schema cannot be read: {_line(error)}") from error
            self._cache.put(key, found)
        return found

    def own_steps(self, _registry: Registry, *, register: bool) -> Exchange[Schema]:  # noqa: ARG002
        """As given."""
        yield from ()
        return _own(self)

    def encode(self, value: Any, schema: Schema, named: Mapping[str, Schema]) -> bytes:
        """Raises ValueError."""
        import fastavro

        parsed, written = self._parsed(schema, named), io.BytesIO()
        try:
            fastavro.schemaless_writer(written, parsed, value)
        except BROKEN as error:
            raise ValueError(f"does not fit the schema: {_line(error)}") from error
        return written.getvalue()

    def decode(
        self, payload: bytes, schema: Schema, named: Mapping[str, Schema], own_named: Mapping[str, Schema] = NONE
    ) -> Any:
        """Raises ValueError."""
        import fastavro
        from fastavro.read import SchemaResolutionError

        reader = None if self.schema is None else self._parsed(self.schema, own_named)
        try:
            return fastavro.schemaless_reader(io.BytesIO(payload), self._parsed(schema, named), reader)
        except (*BROKEN, SchemaResolutionError) as error:
            raise ValueError(f"does not decode under its schema: {_line(error)}") from error


class JsonCodec:
    """JSON Schema: values are checked when they are written and when they are read; then by the codec's own schema, or, where it
    has none, the writer's."""

    KIND: ClassVar[str] = "JSON"
    indexes: tuple[int, ...] | None = None

    def __init__(self, schema: Schema | str | Mapping[str, Any] | None = None) -> None:
        need("JsonCodec", "jsonschema", "schema")
        self.schema = _schema(schema, self.KIND)
        if self.schema is not None and not self.schema.references:
            try:
                self._validator(self.schema, {})
            except ValueError as error:
                raise ConfigurationError(f"json: {error}") from error

    @property
    def record_name(self) -> str:
        """The schema's title, as Confluent's serializers take it."""
        return str(_object(self.schema).get("title", ""))

    @cached_property
    def _cache(self) -> RecentlyUsed[Any]:
        return RecentlyUsed(PARSED_MAX)

    def _validator(self, schema: Schema, named: Mapping[str, Schema]) -> Any:
        key = _key(schema, named)
        found = self._cache.get(key)
        if found is None:
            import jsonschema
            import referencing
            from referencing.jsonschema import DRAFT7

            try:
                content = json.loads(schema.text)
                kind = jsonschema.validators.validator_for(content, default=jsonschema.Draft7Validator)
                kind.check_schema(content)
                resources = [
                    (name, referencing.Resource.from_contents(json.loads(each.text), default_specification=DRAFT7))
                    for name, each in named.items()
                ]
                found = kind(content, registry=referencing.Registry().with_resources(resources))
            except (*BROKEN, jsonschema.exceptions.SchemaError) as error:
                raise ValueError(f"the schema cannot be read: {_line(error)}") from error
            self._cache.put(key, found)
        return found

    def _check(self, value: Any, schema: Schema, named: Mapping[str, Schema]) -> None:
        import jsonschema
        import referencing

        try:
            self._validator(schema, named).validate(value)
        except (jsonschema.exceptions.ValidationError, referencing.exceptions.Unresolvable) as error:
            where = getattr(error, "json_path", "$")
            raise ValueError(
                f"does not fit the schema at {where}: {_line(getattr(error, 'message', error))}"
            ) from error
        except BROKEN as error:
            raise ValueError(f"cannot be compared with the schema: {_line(error)}") from error

    def own_steps(self, _registry: Registry, *, register: bool) -> Exchange[Schema]:  # noqa: ARG002
        """As given."""
        yield from ()
        return _own(self)

    def encode(self, value: Any, schema: Schema, named: Mapping[str, Schema]) -> bytes:
        """Raises ValueError."""
        self._check(value, schema, named)
        try:
            return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
        except BROKEN as error:
            raise ValueError(f"is not JSON: {_line(error)}") from error

    def decode(
        self, payload: bytes, schema: Schema, named: Mapping[str, Schema], own_named: Mapping[str, Schema] = NONE
    ) -> Any:
        """Raises ValueError."""
        try:
            value = json.loads(payload)
        except BROKEN as error:
            raise ValueError(f"is not JSON: {_line(error)}") from error
        if self.schema is None:
            self._check(value, schema, named)
        else:
            self._check(value, self.schema, own_named)
        return value


class ProtobufCodec:
    """Protobuf: a generated class of messages, for both directions."""

    KIND: ClassVar[str] = "PROTOBUF"

    def __init__(self, message: Any) -> None:
        descriptor = getattr(message, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(message, "FromString"):
            raise ConfigurationError(f"protobuf: {message!r} is no generated class of messages")
        self._message, self._descriptor = message, descriptor
        self.schema = _file_schema(descriptor.file)
        self.indexes: tuple[int, ...] = _indexes(descriptor)
        self.record_name: str = descriptor.full_name

    def own_steps(self, _registry: Registry, *, register: bool) -> Exchange[Schema]:
        """With the imported files, registered (or looked up) each under its own name first. Google's own are everybody's."""
        return (yield from self._file_steps(_registry, self._descriptor.file, register))

    def _file_steps(self, registry: Registry, file: Any, register: bool) -> Exchange[Schema]:
        from oncelog.schema.registry import Reference

        references = []
        for imported in file.dependencies:
            if imported.name.startswith("google/protobuf/"):
                continue
            schema = yield from self._file_steps(registry, imported, register)
            yield from registry.id_steps(imported.name, schema, register=register)
            version = yield from registry.number_steps(imported.name, schema)
            references.append(Reference(imported.name, imported.name, version))
        return Schema(_file_schema(file).text, self.KIND, tuple(references))

    def encode(self, value: Any, schema: Schema, named: Mapping[str, Schema]) -> bytes:  # noqa: ARG002
        """Raises ValueError."""
        from google.protobuf.message import EncodeError

        if not isinstance(value, self._message):
            raise ValueError(f"is a {type(value).__name__}, not a {self.record_name}")
        try:
            return bytes(value.SerializeToString(deterministic=True))
        except (*BROKEN, EncodeError) as error:
            raise ValueError(f"does not fit the schema: {_line(error)}") from error

    def decode(
        self,
        payload: bytes,
        schema: Schema,  # noqa: ARG002
        named: Mapping[str, Schema],  # noqa: ARG002
        own_named: Mapping[str, Schema] = NONE,  # noqa: ARG002
    ) -> Any:
        """Raises ValueError."""
        from google.protobuf.message import DecodeError

        try:
            return self._message.FromString(payload)
        except (*BROKEN, DecodeError) as error:
            raise ValueError(f"is no {self.record_name}: {_line(error)}") from error


def _file_schema(file: Any) -> Schema:
    """A file's descriptor in base64: registries take that beside the text of a .proto file."""
    return Schema(base64.standard_b64encode(file.serialized_pb).decode(), "PROTOBUF")


def _indexes(descriptor: Any) -> tuple[int, ...]:
    """From the outermost message inwards, the place of each among its siblings."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name.values() if outer is None else outer.nested_types
        path.insert(0, [each.full_name for each in siblings].index(descriptor.full_name))
        descriptor = outer
    return tuple(path)


def _schema(given: Any, kind: str) -> Schema | None:
    """A codec's own schema. Raises ConfigurationError."""
    if given is None or isinstance(given, Schema):
        found: Schema | None = given
    elif isinstance(given, str):
        found = Schema(given, kind)
    elif isinstance(given, Mapping | list):
        try:
            found = Schema(json.dumps(given), kind)
        except BROKEN as error:
            raise ConfigurationError(f"{kind.lower()}: the schema cannot be read: {_line(error)}") from error
    else:
        raise ConfigurationError(f"{kind.lower()}: a schema is text, a dict, or a Schema, not {type(given).__name__}")
    if found is not None and found.kind != kind:
        raise ConfigurationError(f"{kind.lower()}: this is a schema of {found.kind}")
    return found


def _key(schema: Schema, named: Mapping[str, Schema]) -> Any:
    """For a cache: the same text means something else where the names in it do."""
    return (schema, tuple(sorted(named.items(), key=_first))) if named else schema


def _first(pair: tuple[str, Schema]) -> str:
    return pair[0]


def _object(schema: Schema | None) -> dict[str, Any]:
    """A schema that is a JSON object; of any other nothing."""
    content = None if schema is None else json.loads(schema.text)
    return content if isinstance(content, dict) else {}


def _own(codec: AvroCodec | JsonCodec) -> Schema:
    if codec.schema is None:
        raise ConfigurationError(f"a serializer needs a schema: {type(codec).__name__}(schema), or use_latest_version")
    return codec.schema


def _line(error: object) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]
