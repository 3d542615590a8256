"""The style of a trust card, beside that of every page."""

STYLE = """
.whence .card section { background: #fff; }
.whence .card > section > h2 { font-size: 1.15rem; margin-bottom: .3rem; overflow-wrap: anywhere; }
.whence .card .overall > h2 { font-size: 1.4rem; line-height: 1.35; margin-bottom: .6rem; text-wrap: balance; }
.whence .card p { overflow-wrap: anywhere; }
.whence .chip { display: inline-block; font-size: .8rem; font-weight: 600; line-height: 1.5; padding: 0 .55em;
  border: 1px solid; border-radius: 99px; white-space: nowrap; vertical-align: .1em; }
.whence .chip.holds { color: #17603a; background: #e8f5ec; border-color: #b5dcc2; }
.whence .chip.weak { color: #6f4a00; background: #fdf4dc; border-color: #ecd79b; }
.whence .chip.fails { color: #94201b; background: #fdecea; border-color: #f0bfbb; }
.whence .chip.not-tested { color: #56606a; background: #f3f5f7; border-color: #d9dee3; font-weight: 400; }
.whence .wide { overflow-x: auto; margin-top: .9rem; }
.whence .card details :is(th, td) { overflow-wrap: anywhere; }
.whence .matrix th, .whence .matrix td { padding: .28rem .5rem .28rem 0; vertical-align: bottom; }
.whence .matrix th:last-child, .whence .matrix td:last-child { padding-right: 0; }
.whence .matrix thead th { font-size: .74rem; font-weight: 500; line-height: 1.25; }
.whence .matrix .chip { font-size: .72rem; padding: 0 .45em; }
.whence .matrix tbody th { border: 0; white-space: nowrap; }
.whence .curves { display: flex; flex-wrap: wrap; gap: .8rem 1.6rem; margin-top: 1.1rem; }
.whence .curves figure { margin: 0; flex: 1 1 19rem; min-width: 0; max-width: 27rem; }
.whence .curves figcaption strong { color: var(--ink); }
.whence .curve { display: block; width: 100%; height: auto; }
.whence .curve text { font-size: 12px; fill: var(--dim); }
.whence svg .grid { stroke: var(--rule); stroke-width: 1; }
.whence svg .random { fill: #d5dbe1; fill-opacity: .75; }
.whence svg .mean { fill: none; stroke: #79848f; stroke-width: 1.3; stroke-dasharray: 4 3; }
.whence svg polyline.own, .whence svg line.own { fill: none; stroke: #2166ac; stroke-width: 2.2; }
.whence svg circle.own { fill: #2166ac; }
.whence .legend { display: flex; flex-wrap: wrap; gap: .1rem 1.4rem; font-size: .87rem; color: var(--dim); }
.whence .key { width: 26px; height: 12px; vertical-align: -1px; }
.whence .track { display: block; width: 110px; height: 12px; margin: .35rem 0 .1rem -5px; }
.whence .track .rail { stroke: var(--rule); stroke-width: 2; }
.whence .track .spread { stroke: #8fb3d6; stroke-width: 4; stroke-linecap: round; }
.whence .card .dim { font-weight: 400; }
.whence .tests { width: 100%; margin-top: 1.1rem; }
.whence .tests th, .whence .tests td { padding: .5rem 1rem .5rem 0; vertical-align: top;
  border-bottom: 1px solid #e9edf0; overflow-wrap: break-word; }
.whence .tests th:last-child, .whence .tests td:last-child { padding-right: 0; }
.whence .tests tbody tr:last-child > * { border-bottom: 0; }
.whence .tests thead th { font-size: .82rem; padding-bottom: .2rem; border-bottom-color: #b9c1c9; }
.whence .tests tbody th { font-weight: 400; min-width: 8rem; }
.whence .tests td > span { white-space: nowrap; }
.whence .tests td[data-label="value"] { width: 5rem; }
.whence .tests td[data-label="value"] .dim { white-space: normal; }
.whence .tests th .dim, .whence .tests td .dim { display: block; line-height: 1.4; }
.whence .tests .none { color: var(--dim); }
.whence .tests .group th { border-bottom: 0; padding-bottom: 0; }
.whence .tests .group th .dim { display: inline; }
.whence .card details table { margin-bottom: .8rem; }
@media (max-width: 44rem) {
  .whence .tests thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .whence .tests, .whence .tests tbody, .whence .tests tr, .whence .tests tbody th { display: block; }
  .whence .tests tr { padding: .6rem 0; border-bottom: 1px solid var(--rule); }
  .whence .tests tbody th, .whence .tests td { padding: .1rem 0; border: 0; }
  .whence .tests td { display: grid; grid-template-columns: 8.2rem minmax(0, 1fr); justify-items: start; }
  .whence .tests td > * { grid-column: 2; }
  .whence .tests td > span:not(.chip) { white-space: normal; }
  .whence .tests td.none { display: none; }
  .whence .tests td::before { content: attr(data-label); color: var(--dim); grid-row: 1; }
}
"""
