"""The transaction coordinator: one file per request, one for the transaction's states."""
