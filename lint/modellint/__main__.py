"""``python -m modellint``."""

from modellint.cli import main

if __name__ == "__main__":
    main()
