"""Text as text in HTML."""

from __future__ import annotations

import html

from fedpace.untrusted import visible


def escape(text: str) -> str:
    """With markup and quotes escaped, and control characters but the end of a line written out."""
    return "\n".join(html.escape(visible(line)) for line in text.split("\n"))
