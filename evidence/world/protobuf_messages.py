"""A class of Protobuf messages without a compiler: message `Outer.Inner`, the second message's first, of `shop.proto`."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def inner_message() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="First")
    inner = file.message_type.add(name="Outer").nested_type.add(name="Inner")
    kind = descriptor_pb2.FieldDescriptorProto
    inner.field.add(name="n", number=1, type=kind.TYPE_INT64, label=kind.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Outer.Inner"))
