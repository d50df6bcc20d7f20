"""One self-contained web page about runs: results, charts, configuration, papers to cite."""

from fedpace.record.report.page.groups import StoredRun
from fedpace.record.report.page.page import page

__all__ = ["StoredRun", "page"]
