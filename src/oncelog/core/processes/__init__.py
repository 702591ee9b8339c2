"""Several processes of one machine as one cluster (`oncelog serve --processes N`): how each is started."""
