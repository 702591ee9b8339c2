"""Several processes as one cluster (`oncelog serve --processes N`), under faults, in a simulated world."""
