"""One partition on disk, in Apache Kafka's file formats, over an injected `Files`; `layout.md` describes every byte."""
