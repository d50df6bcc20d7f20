"""One self-contained web page about runs: numbers, charts, configuration, whom to cite."""

from fedpace.record.report.page.page import StoredRun, page

__all__ = ["StoredRun", "page"]
