"""``python -m modellint``, which imports nothing from the current folder: what is checked may hold a ``click.py``."""

import os
import sys

if __name__ == "__main__":
    # `python -m` puts the folder there, unless `-P` or `-I` says no.
    if sys.path[:1] in ([""], [os.getcwd()]):  # noqa: PTH109
        del sys.path[0]
    from modellint.cli import main

    main()
