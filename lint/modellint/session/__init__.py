"""Live targets: one request, run in a worker process or in the caller's, and its answer."""
