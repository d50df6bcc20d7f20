"""One self-contained web page about runs: numbers, charts, configuration, whom to cite."""

from fedpace.record.report.page.page import Kept, page

__all__ = ["Kept", "page"]
