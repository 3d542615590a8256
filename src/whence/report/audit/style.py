"""The style of an audit, beside that of every page and every drawing."""

from whence.report.plot import DARK as PLOTS_IN_THE_DARK
from whence.report.plot import STYLE as PLOTS

STYLE = (
    PLOTS
    + """
.whence .audit { --held-ink: #17603a; --held-line: #8cc7a1; --fail-ink: #94201b; --fail-paper: #fdecea;
  --fail-line: #e3a19b; --open-ink: #6f4a00; --open-paper: #fdf4dc; --open-line: #dcc078; }
.whence .audit section { background: var(--paper, #fff); }
.whence .audit :is(p, dd, li, h2, h3, summary, .summary td, .summary th) { overflow-wrap: anywhere; }
.whence .overall h2 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
.whence .conclusion { font-size: 1.05rem; max-width: 46rem; margin: .3rem 0 1rem; }
.whence .facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1.1rem; margin: .8rem 0;
  font-size: .92rem; }
.whence .facts dt { color: var(--dim); }
.whence .facts dd { margin: 0; }
.whence .claim dt { font-weight: 600; color: var(--ink); }
.whence .badge { display: inline-block; font-weight: 600; line-height: 1.5; padding: 0 .6em; border: 1px solid;
  border-radius: 99px; white-space: nowrap; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.whence .badge.holds { color: var(--held-ink); background: var(--held); border-color: var(--held-line); }
.whence .badge.fails { color: var(--fail-ink); background: var(--fail-paper); border-color: var(--fail-line); }
.whence .badge.undecided { color: var(--open-ink); background: var(--open-paper); border-color: var(--open-line); }
.whence .found { display: flex; flex-wrap: wrap; gap: .4rem 2rem; align-items: center; margin: .9rem 0 .3rem; }
.whence .found > div { flex: 1 1 15rem; min-width: 0; }
.whence .found svg { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
.whence .effect { font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; margin: .25rem 0 0; }
.whence .audit ul { margin: .4rem 0; padding-left: 1.2rem; }
.whence .wide { overflow-x: auto; }
.whence .audit table { margin: .5rem 0; }
.whence .audit a { color: var(--own); }
.whence .audit thead th { font-size: .84rem; }
.whence .audit tbody th { font-weight: 500; border-bottom: 0; }
.whence .audit .wide :is(th, td) { overflow-wrap: anywhere; min-width: 5.8rem; }
.whence .audit .wide :is(td.n, td.brief) { white-space: nowrap; min-width: 0; }
.whence .audit .wide thead th { overflow-wrap: normal; min-width: 0; }
.whence .audit th.n { text-align: right; }
.whence .summary { width: 100%; }
.whence .summary tbody :is(th, td) { border-top: 1px solid var(--faint); padding-block: .35rem; }
.whence .summary tbody th { font-weight: 600; border-bottom: 0; min-width: 7.5rem; }
.whence .summary .badge { font-size: .82rem; }
.whence .deep th { vertical-align: top; }
.whence .deep td { vertical-align: top; min-width: 4rem; }
.whence .small { font-size: .9rem; margin-top: .9rem; border-top: 1px solid var(--faint); padding-top: .6rem; }
@media (max-width: 36rem) {
  .whence .audit section { padding: .9rem; }
  .whence .facts { display: block; }
  .whence .facts dd { margin: 0 0 .5rem; }
  .whence .summary thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .whence .summary, .whence .summary tbody, .whence .summary tr, .whence .summary :is(th, td) { display: block; }
  .whence .summary tr { border-top: 1px solid var(--faint); padding: .5rem 0; }
  .whence .summary tbody :is(th, td) { border: 0; padding: .05rem 0; }
  .whence .summary tbody td { display: inline-block; margin-right: .9rem; }
  .whence .summary td::before { content: attr(data-label) ": "; color: var(--dim); }
  .whence .summary td.none { display: none; }
}
"""
)

# Of a page only: in a notebook the paper is the notebook's, and it does not follow the system.
PAGE = f"""
@media (max-width: 36rem) {{ body {{ padding: .75rem !important; }} }}
@media screen and (prefers-color-scheme: dark) {{
  body {{ background: #12161b !important; color-scheme: dark !important; }}
  .whence {{ --ink: #e6e9ec; --dim: #a6b0ba; --rule: #39424b; --paper: #1a2027; }}
  .whence .audit {{ --held-ink: #a3e0ba; --held-line: #2f6d49; --fail-ink: #ffb8b0; --fail-paper: #421713;
    --fail-line: #8d4038; --open-ink: #f1d690; --open-paper: #382c08; --open-line: #77631f; }}
{PLOTS_IN_THE_DARK}
}}
@media print {{
  body {{ background: #fff !important; max-width: none !important; padding: 0 !important; }}
  .whence section {{ border: 0; padding: 0; }}
  .whence figure, .whence .found, .whence .example, .whence tr {{ break-inside: avoid; }}
  .whence h2 {{ break-after: avoid; }}
  .whence details::details-content {{ content-visibility: visible; block-size: auto; }}
}}
"""
