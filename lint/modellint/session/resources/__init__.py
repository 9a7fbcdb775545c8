"""Resources that a worker takes: the memory of its model, and the processes that it starts."""
