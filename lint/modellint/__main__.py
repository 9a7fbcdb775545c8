"""``python -m modellint``, which imports nothing from the current folder: what is checked may hold a ``click.py``."""

import gc
import os
import sys

if __name__ == "__main__":
    # What is imported is there to stay: to look through it for garbage again and again takes a tenth of the check of a file.
    gc.disable()
    try:
        here = os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        # It is gone, and so is what it held.
        here = ""
    # `python -m` puts the folder there, unless `-P` or `-I` says no.
    if sys.path[:1] in ([""], [here]):
        del sys.path[0]
    from modellint.cli import main

    main()
