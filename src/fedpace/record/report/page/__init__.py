"""One self-contained web page about runs: results, charts, configuration, papers to cite."""

from fedpace.record.report.page.page import StoredRun, page

__all__ = ["StoredRun", "page"]
