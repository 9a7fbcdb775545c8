"""One function for each operation of MIL, in modules grouped as coremltools groups them."""
