"""`python -m irene` is `irene`."""

import sys

from irene.cli import main

sys.exit(main())
