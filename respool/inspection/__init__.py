"""Looking at stored responses from the command line, and playing them back (docs/debugging.md)."""
