"""Records to Arrow's column buffers and back, without a Python object per record: the bulk path of the wire.

One source for both worlds, like record_codec.py: `arrow_codec.pxd` has the C types. pyarrow itself is not needed
here; arrow_records.py wraps these buffers, whose layout is Arrow's (32-bit offsets, validity bits from the lowest).
Rule: whatever the bytes are, decoding gives rows or raises CorruptBatch; what was appended before stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.errors import CorruptBatch

try:
    import cython
except ImportError:
    from oncelog.wire import uncompiled as cython

if not cython.compiled:  # compiled, they come as C functions through the .pxd
    from oncelog.wire.murmur2 import hash_of
    from oncelog.wire.varint import (
        add_delta,
        delta_between,
        put_varint,
        read_int32,
        read_size,
        read_varint,
        varint_bytes,
    )

# C variables when compiled, so not for others to import.
INT32_MAX = 0x7FFFFFFF
INT64_MAX = 0x7FFFFFFFFFFFFFFF
MILLISECONDS_MAX = 0x7FFFFFFFFFFFFFFF // 1000
RECORD_BYTES_MIN = 7


def to_microseconds(timestamp_ms: int) -> int:
    # Any 64-bit timestamp may be in a log; one that microseconds cannot say must not stop a whole query.
    if timestamp_ms > MILLISECONDS_MAX:
        return INT64_MAX
    if timestamp_ms < -MILLISECONDS_MAX:
        return -INT64_MAX
    return timestamp_ms * 1000


def set_bit(bits: bytearray, index: int) -> None:
    bits[index >> 3] |= 1 << (index & 7)


def copy_bytes(target: memoryview, at: int, source: bytes, start: int, size: int) -> None:
    if cython.compiled:
        if size > 0:
            memcpy(cython.address(target[at]), source + start, size)  # type: ignore[name-defined,operator] # noqa: F821
    else:
        target[at : at + size] = source[start : start + size]


def clear_bits(bits: bytearray, count: int) -> None:
    first = count >> 3
    kept = bits[first] & ((1 << (count & 7)) - 1)
    bits[first:] = bytes(len(bits) - first)
    bits[first] = kept


def grown_bits(bits: bytearray, count: int) -> bytearray:
    bigger = bytearray(count // 8 + 1)
    bigger[: len(bits)] = bits
    return bigger


class ColumnWriter:
    """Column buffers that grow. The headers of all rows lie one after the other beside the rows.

    `allocate(size_bytes)` gives writable memory; Arrow's pool does, which keeps its pages (fresh ones cost more than
    the copying itself). `row_count` and `size_bytes` are what to expect, `column_bytes_max` what a column of bytes may
    have at most: what its offsets can say.
    """

    def __init__(
        self, allocate: Callable[[int], memoryview], row_count: int, size_bytes: int, column_bytes_max: int = INT32_MAX
    ) -> None:
        self.allocate = allocate
        self.column_bytes_max = column_bytes_max
        size_bytes = min(size_bytes, column_bytes_max)
        self.row_capacity = row_count
        self.row_count = 0
        self.header_count = 0
        self.key_bytes = 0
        self.value_bytes = 0
        self.header_key_bytes = 0
        self.header_value_bytes = 0
        self.keys = allocate(min(size_bytes // 8 + 64, column_bytes_max))
        self.key_offsets = self.int32_buffer(row_count + 1)
        self.key_valid = bytearray(row_count // 8 + 1)
        self.values = allocate(min(size_bytes + 64, column_bytes_max))
        self.value_offsets = self.int32_buffer(row_count + 1)
        self.value_valid = bytearray(row_count // 8 + 1)
        self.offsets = allocate(8 * row_count + 8).cast("q")
        self.timestamps = allocate(8 * row_count + 8).cast("q")
        self.header_offsets = self.int32_buffer(row_count + 1)
        self.headers_valid = bytearray(row_count // 8 + 1)
        self.header_keys = allocate(min(64, column_bytes_max))
        self.header_key_offsets = self.int32_buffer(1)
        self.header_values = allocate(min(64, column_bytes_max))
        self.header_value_offsets = self.int32_buffer(1)
        self.header_value_valid = bytearray(1)

    def int32_buffer(self, count: int) -> memoryview[int]:
        numbers = self.allocate(4 * count).cast("i")
        numbers[0] = 0  # the start of the first row's bytes; the rest is written row by row
        return numbers

    def grown_int32(self, numbers: memoryview[int], count: int) -> memoryview[int]:
        bigger = self.allocate(4 * count).cast("i")
        bigger[: len(numbers)] = numbers
        return bigger

    def grown_int64(self, numbers: memoryview[int], count: int) -> memoryview[int]:
        bigger = self.allocate(8 * count).cast("q")
        bigger[: len(numbers)] = numbers
        return bigger

    def grown(self, buffer: memoryview, used_bytes: int, more_bytes: int) -> memoryview:
        size_bytes = used_bytes + more_bytes
        if size_bytes > self.column_bytes_max:
            raise OverflowError("one Arrow column cannot hold 2 GiB: read fewer records at once")
        bigger = self.allocate(min(max(size_bytes, 2 * len(buffer)), self.column_bytes_max))
        bigger[:used_bytes] = buffer[:used_bytes]
        return bigger

    def reserve(self, row_count: int) -> None:
        rows = self.row_count + row_count
        if rows <= self.row_capacity:
            return
        rows = max(rows, 2 * self.row_capacity)
        self.key_offsets = self.grown_int32(self.key_offsets, rows + 1)
        self.value_offsets = self.grown_int32(self.value_offsets, rows + 1)
        self.header_offsets = self.grown_int32(self.header_offsets, rows + 1)
        self.key_valid = grown_bits(self.key_valid, rows)
        self.value_valid = grown_bits(self.value_valid, rows)
        self.headers_valid = grown_bits(self.headers_valid, rows)
        self.offsets = self.grown_int64(self.offsets, rows)
        self.timestamps = self.grown_int64(self.timestamps, rows)
        self.row_capacity = rows  # last: there may be no memory for one of them

    def append(
        self,
        section: bytes,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        append_timestamp: int | None,
        start_offset: int,
        end_offset: int,
    ) -> int:
        """Add the records of a section whose offsets are in [start, end); gives how many there were. Where it raises, none."""
        header_count, key_bytes, value_bytes = self.header_count, self.key_bytes, self.value_bytes
        header_key_bytes, header_value_bytes = self.header_key_bytes, self.header_value_bytes
        try:
            return self.append_records(
                section, record_count, base_offset, base_timestamp, append_timestamp, start_offset, end_offset
            )
        except BaseException:
            self.header_count, self.key_bytes, self.value_bytes = header_count, key_bytes, value_bytes
            self.header_key_bytes, self.header_value_bytes = header_key_bytes, header_value_bytes
            clear_bits(self.key_valid, self.row_count)
            clear_bits(self.value_valid, self.row_count)
            clear_bits(self.headers_valid, self.row_count)
            clear_bits(self.header_value_valid, header_count)
            raise

    def append_records(
        self,
        section: bytes,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        append_timestamp: int | None,
        start_offset: int,
        end_offset: int,
    ) -> int:
        end = len(section)
        if record_count < 0 or record_count > end // RECORD_BYTES_MIN:
            raise CorruptBatch(f"{record_count} records cannot be in {end} bytes")
        self.reserve(record_count)
        fixed = append_timestamp is not None
        fixed_timestamp = 0 if append_timestamp is None else append_timestamp
        row = first_row = self.row_count
        data = section
        pos = 0
        for _ in range(record_count):
            size, pos = read_size(data, pos, end)
            if size < RECORD_BYTES_MIN - 1:
                raise CorruptBatch("a record's length is impossible")
            record_end = pos + size
            delta, pos = read_varint(data, pos + 1, record_end)
            timestamp = add_delta(base_timestamp, delta)
            delta, pos = read_int32(data, pos, record_end)
            if delta > INT32_MAX or delta < -INT32_MAX:
                raise CorruptBatch("a record's offset delta is impossible")
            offset = add_delta(base_offset, delta)
            if offset >= start_offset and offset < end_offset:
                self.offsets[row] = offset
                self.timestamps[row] = to_microseconds(fixed_timestamp if fixed else timestamp)
                self.append_fields(data, pos, record_end, row)
                row += 1
            pos = record_end
        if pos != end:
            raise CorruptBatch(f"{end - pos} bytes after the last record")
        self.row_count = row
        return row - first_row

    def append_fields(self, data: bytes, pos: int, record_end: int, row: int) -> None:
        size, pos = read_size(data, pos, record_end)
        if size >= 0:
            set_bit(self.key_valid, row)
            if self.key_bytes + size > len(self.keys):
                self.keys = self.grown(self.keys, self.key_bytes, size)
            copy_bytes(self.keys, self.key_bytes, data, pos, size)
            self.key_bytes += size
            pos += size
        self.key_offsets[row + 1] = self.key_bytes
        size, pos = read_size(data, pos, record_end)
        if size >= 0:
            set_bit(self.value_valid, row)
            if self.value_bytes + size > len(self.values):
                self.values = self.grown(self.values, self.value_bytes, size)
            copy_bytes(self.values, self.value_bytes, data, pos, size)
            self.value_bytes += size
            pos += size
        self.value_offsets[row + 1] = self.value_bytes
        if pos + 1 != record_end or data[pos] != 0:
            self.append_headers(data, pos, record_end, row)
        self.header_offsets[row + 1] = self.header_count

    def append_headers(self, data: bytes, pos: int, record_end: int, row: int) -> None:
        count, pos = read_int32(data, pos, record_end)
        if count < 0 or count > (record_end - pos) // 2:
            raise CorruptBatch("a record's header count is impossible")
        self.reserve_headers(count)
        if count:
            set_bit(self.headers_valid, row)
        for _ in range(count):
            size, pos = read_size(data, pos, record_end)
            if size < 0:
                raise CorruptBatch("a header has no key")
            self.append_header_key(data[pos : pos + size])
            pos += size
            size, pos = read_size(data, pos, record_end)
            if size >= 0:
                set_bit(self.header_value_valid, self.header_count)
                if self.header_value_bytes + size > len(self.header_values):
                    self.header_values = self.grown(self.header_values, self.header_value_bytes, size)
                copy_bytes(self.header_values, self.header_value_bytes, data, pos, size)
                self.header_value_bytes += size
                pos += size
            self.header_count += 1
            self.header_key_offsets[self.header_count] = self.header_key_bytes
            self.header_value_offsets[self.header_count] = self.header_value_bytes
        if pos != record_end:
            raise CorruptBatch("a record's length is wrong")

    def append_header_key(self, key: bytes) -> None:
        if not key.isascii():  # Arrow's strings must be UTF-8, which nobody has checked: replace, as Java does
            key = key.decode("utf-8", "replace").encode()
        size = len(key)
        if self.header_key_bytes + size > len(self.header_keys):
            self.header_keys = self.grown(self.header_keys, self.header_key_bytes, size)
        copy_bytes(self.header_keys, self.header_key_bytes, key, 0, size)
        self.header_key_bytes += size

    def reserve_headers(self, count: int) -> None:
        headers = self.header_count + count
        if headers < len(self.header_key_offsets):
            return
        headers = max(headers, 2 * self.header_count)
        self.header_value_valid = grown_bits(self.header_value_valid, headers)
        self.header_value_offsets = self.grown_int32(self.header_value_offsets, headers + 1)
        self.header_key_offsets = self.grown_int32(self.header_key_offsets, headers + 1)  # last: its size is asked for


class BytesColumn:
    """A binary or string array's buffers: offsets (int32), data, validity bits or None, and the array's own start."""

    def __init__(self, offsets: memoryview[int], data: memoryview, valid: memoryview | None, start: int) -> None:
        self.offsets = offsets
        self.data = data
        self.start = start
        self.has_valid = valid is not None
        if valid is not None:
            self.valid = valid

    def size_of(self, row: int) -> int:
        """The length, -1 for null."""
        index = self.start + row
        if self.has_valid and not (self.valid[index >> 3] >> (index & 7)) & 1:
            return -1
        return self.offsets[index + 1] - self.offsets[index]

    def put(self, row: int, size: int, out: bytearray, pos: int) -> int:
        """Write a length and the bytes after it; gives the position behind them."""
        pos = put_varint(out, pos, size)
        if size <= 0:
            return pos
        at = self.offsets[self.start + row]
        if cython.compiled:
            memcpy(out + pos, cython.address(self.data[at]), size)  # type: ignore[name-defined,operator] # noqa: F821
        else:
            out[pos : pos + size] = self.data[at : at + size]
        return pos + size


class RowEncoder:
    """Writes rows of columns as records. A column that is not there is None: null keys, no headers, one timestamp."""

    def __init__(
        self,
        values: BytesColumn,
        keys: BytesColumn | None,
        timestamps: memoryview[int] | None,
        rows: memoryview[int] | None,
        timestamp_ms: int,
    ) -> None:
        self.values = values
        self.has_keys = keys is not None
        self.keys = keys if keys is not None else values
        self.timestamp_ms = timestamp_ms
        self.has_timestamps = timestamps is not None
        if timestamps is not None:
            self.timestamps = timestamps
        self.has_rows = rows is not None
        if rows is not None:
            self.rows = rows
        self.has_headers = False
        self.header_keys = values
        self.header_values = values

    def set_headers(self, lists: BytesColumn, keys: BytesColumn, values: BytesColumn) -> None:
        """`lists` is the list array: its offsets count rows of the other two, its data is not looked at."""
        self.has_headers = True
        self.header_lists = lists
        self.header_keys = keys
        self.header_values = values

    def encode(
        self, out: bytearray, first: int, end: int, size_bytes_max: int, count_max: int
    ) -> tuple[int, int, int, int]:
        """Write records from `first` on until `end` or a limit; gives (next, bytes, base timestamp, largest timestamp).

        `out` has at least `size_bytes_max` bytes. When not even one record fits in it, next is `first` and bytes is
        what that record needs.
        """
        pos = 0
        base = 0
        largest = 0
        capacity = len(out)
        for index in range(min(end - first, count_max)):
            row = self.rows[first + index] if self.has_rows else first + index
            timestamp = self.timestamps[row] if self.has_timestamps else self.timestamp_ms
            if index == 0:
                base = largest = timestamp
            delta = delta_between(base, timestamp)
            key_bytes = self.keys.size_of(row) if self.has_keys else -1
            value_bytes = self.values.size_of(row)
            size = 1 + varint_bytes(delta) + varint_bytes(index) + varint_bytes(key_bytes) + varint_bytes(value_bytes)
            size += max(key_bytes, 0) + max(value_bytes, 0) + self.headers_bytes(row)
            whole = varint_bytes(size) + size
            if pos + whole > size_bytes_max and (index > 0 or whole > capacity):
                return first + index, whole if index == 0 else pos, base, largest
            pos = put_varint(out, pos, size)
            out[pos] = 0
            pos = put_varint(out, pos + 1, delta)
            pos = put_varint(out, pos, index)
            pos = self.keys.put(row, key_bytes, out, pos)
            pos = self.values.put(row, value_bytes, out, pos)
            pos = self.put_headers(row, out, pos)
            if timestamp > largest:
                largest = timestamp
        return first + min(end - first, count_max), pos, base, largest

    def headers_bytes(self, row: int) -> int:
        if not self.has_headers:
            return 1
        count = self.header_lists.size_of(row)
        if count <= 0:
            return 1
        size = varint_bytes(count)
        at = self.header_lists.offsets[self.header_lists.start + row]
        for header in range(at, at + count):
            key_bytes = self.header_keys.size_of(header)
            if key_bytes < 0:
                raise ValueError("a record header has a null key")
            value_bytes = self.header_values.size_of(header)
            size += varint_bytes(key_bytes) + key_bytes + varint_bytes(value_bytes) + max(value_bytes, 0)
        return size

    def put_headers(self, row: int, out: bytearray, pos: int) -> int:
        count = self.header_lists.size_of(row) if self.has_headers else 0
        if count <= 0:
            out[pos] = 0
            return pos + 1
        pos = put_varint(out, pos, count)
        at = self.header_lists.offsets[self.header_lists.start + row]
        for header in range(at, at + count):
            pos = self.header_keys.put(header, self.header_keys.size_of(header), out, pos)
            pos = self.header_values.put(header, self.header_values.size_of(header), out, pos)
        return pos


def key_hash(column: BytesColumn, row: int, size: int) -> int:
    at = column.offsets[column.start + row]
    if cython.compiled:
        return hash_of(cython.address(column.data[0]), at, size)
    return hash_of(column.data, at, size)


def assign_partitions(out: memoryview[int], keys: BytesColumn, partition_count: int, keyless_partition: int) -> None:
    """The partition of each row's key, as the Java producer chooses it; rows without a key share one."""
    for row in range(len(out)):
        size = keys.size_of(row)
        if size < 0:
            out[row] = keyless_partition
        else:
            out[row] = (key_hash(keys, row, size) & 0x7FFFFFFF) % partition_count
