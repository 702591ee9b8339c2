"""Data directories of oncelog and of Apache Kafka, read as columns: batches by their headers, and what lies beside them.

Nothing is written, nothing is kept whole in memory, and nothing that is damaged stops the reading.
"""
