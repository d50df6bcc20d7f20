"""`python -m fedpace` is the command line."""

import sys

from fedpace.cli import main

sys.exit(main())
