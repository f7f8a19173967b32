"""The composition root: settings, the `respool` command, the roles of a process."""

__version__ = "0.1.0"
