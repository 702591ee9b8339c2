"""The shells of both coordinators, and what flows between them and the partitions: gate, markers, blocks of producer ids."""
