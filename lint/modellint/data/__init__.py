"""Tables measured by running torch and coremltools; written by the scripts of ``modellint.measure``."""
