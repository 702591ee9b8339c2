"""`oncelog secure`: a directory with everything that a secured broker and its first users need."""
