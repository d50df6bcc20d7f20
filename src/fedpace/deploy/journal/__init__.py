"""The journal: every input of a server, on the disk before anything that follows from it leaves."""

from fedpace.deploy.journal.protocol import Journal, NoJournal

__all__ = ["Journal", "NoJournal"]
