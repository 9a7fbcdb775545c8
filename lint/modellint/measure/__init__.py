"""Scripts that measure what ``modellint.data`` holds, by running torch and coremltools."""
