"""The live page: a small server over the run store, and a page of plain modules that it ships."""
