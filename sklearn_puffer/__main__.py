"""What `python -m sklearn_puffer` runs."""

import sys

from sklearn_puffer.cli import main

if __name__ == "__main__":
    sys.exit(main())
