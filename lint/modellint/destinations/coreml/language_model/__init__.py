"""Language models: prefill and decode as two functions of one package, with the caches of keys and values as states."""
