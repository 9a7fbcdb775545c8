"""The version of modellint: that of what is installed, which the build takes from the tag."""


def version() -> str:
    """Look it up, which loads importlib.metadata; a source tree that nothing installed has version 0."""
    from importlib import metadata

    try:
        return metadata.version("modellint")
    except metadata.PackageNotFoundError:
        return "0"
