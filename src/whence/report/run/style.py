"""The style of a report, beside that of every page, of audits and of evaluations."""

from whence.report.audit.style import PAGE as AUDIT_PAGE
from whence.report.audit.style import STYLE as AUDIT
from whence.report.picture.html import STYLE as PICTURES
from whence.report.table.html import STYLE as TABLES

STYLE = (
    TABLES
    + AUDIT
    + PICTURES
    + """
.whence .contents { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; margin: .6rem 0 0 !important;
  padding: 0 !important; font-size: .92rem; }
.whence .warning { border-left: 3px solid var(--line); padding-left: .7rem; }
.whence .told { border-left: 3px solid var(--rule); padding-left: .9rem; margin: 1.1rem 0; }
.whence .told h3 { margin: 0; }
.whence .told .strip { font-size: 1.02rem; line-height: 1.95; border-radius: 6px; }
.whence pre { background: var(--code, #f6f8fa); border: 1px solid var(--rule); border-radius: 6px;
  padding: .7rem .9rem; overflow-x: auto; font-size: .85rem; line-height: 1.5; margin: .6rem 0; }
.whence pre code { font-size: inherit; white-space: pre-wrap; }
.whence .audit .wide :is(th, td).brief { white-space: nowrap; min-width: 0; }
.whence .audit .wide :is(th, td).many { min-width: 12rem; }
"""
)

# The drawing of an evaluation brings its own colours, as it is a file by itself, too; here it has the page's.
# Words keep their light ground: the colours of scores are made for black letters.
PAGE = (
    AUDIT_PAGE
    + """
@media screen and (prefers-color-scheme: dark) {
  .whence { --code: #12161b; }
  .whence .told .strip { background: #fff; color: #1b1f24; padding: .1rem .5rem; }
  .whence .wide > svg rect[fill="#fff"] { fill: var(--paper); }
  .whence .wide > svg rect[fill="#e9ecef"] { fill: #2b333b; }
  .whence .wide > svg text[fill="#1b1f24"] { fill: var(--ink); }
  .whence .wide > svg text[fill="#5c6670"] { fill: var(--dim); }
  .whence .wide > svg line[stroke="#e3e7eb"] { stroke: var(--rule); }
  .whence .wide > svg line[stroke="#5c6670"] { stroke: var(--dim); }
  .whence .wide > svg circle[fill="#fff"] { fill: var(--paper); }
  .whence .wide > svg :is(circle, line)[stroke="#2166ac"] { stroke: var(--own); }
  .whence .wide > svg circle[fill="#2166ac"] { fill: var(--own); }
}
@media print { .whence .told, .whence pre { break-inside: avoid; } }
"""
)
