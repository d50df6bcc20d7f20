"""A reference, and how it is printed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paper:
    """One reference: enough for a reader to find it and for BibTeX to print it."""

    key: str
    authors: str
    title: str
    venue: str
    year: int
    arxiv: str = ""

    def __str__(self) -> str:
        link = f", arXiv:{self.arxiv}" if self.arxiv else ""
        return f"{self.short}, {self.title}, {self.venue} {self.year}{link}"

    @property
    def short(self) -> str:
        """First authors by surname: `Ma & Yarats`, `Sun et al.`"""
        surnames = [name.rsplit(" ", 1)[-1] for name in self.authors.split(" and ")]
        return " & ".join(surnames) if len(surnames) <= 2 else f"{surnames[0]} et al."

    def bibtex(self) -> str:
        lines = {
            "author": self.authors,
            "title": f"{{{self.title}}}",
            "howpublished": self.venue,
            "year": self.year,
        }
        if self.arxiv:
            lines |= {"eprint": self.arxiv, "archiveprefix": "arXiv"}
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in lines.items())
        return f"@misc{{{self.key},\n{body}\n}}"
