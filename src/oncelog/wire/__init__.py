"""Bytes and messages: schemas, frames, record batches. No I/O, no state of the server."""
