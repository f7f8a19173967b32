"""`python -m respool` is the `respool` command."""

from respool.cli import main

main()
