"""The producer's own machine: batches, sequences, and its view of its transactions."""
