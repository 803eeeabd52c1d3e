"""A report: everything about one model on one page, to send to a colleague.

- `contents`: `Report` and `make_report`, what is on the page; what could not be is
  named with the reason.
- `page`: `report_html`, the page itself.
"""

from irene.show.report.contents import PARTS, Report, make_report
from irene.show.report.page import ReportPage, report_html

__all__ = ["PARTS", "Report", "ReportPage", "make_report", "report_html"]
