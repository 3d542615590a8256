"""The colours of drawings: blue and orange, which differ in every common form of colour blindness."""

STYLE = """
.whence { --own: #2166ac; --bar: #5b93c7; --shape: #c3d9ee; --line: #a8500a; --held: #eaf4ee; --faint: #e6eaee; }
.whence figure { margin: 1.1rem 0 0; }
.whence figcaption { color: var(--ink); font-weight: 600; font-size: .92rem; margin-bottom: .2rem;
  overflow-wrap: anywhere; }
.whence .panels { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; }
.whence .panels > svg { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
.whence .panels > details { flex: 1 1 100%; min-width: 0; margin-top: 0; }
.whence .plot { display: block; width: 100%; height: auto; }
.whence .plot text { font-size: 11.5px; fill: var(--dim); }
.whence .plot text.name { font-weight: 600; fill: var(--ink); }
.whence .plot text.threshold { fill: var(--line); }
.whence .plot text.label { paint-order: stroke; stroke: var(--paper, #fff); stroke-width: 3px; }
.whence .plot text.group { font-size: 10.5px; }
.whence .plot text.side { font-size: 11px; }
.whence svg .grid { stroke: var(--faint); stroke-width: 1; }
.whence svg line.threshold { stroke: var(--line); stroke-width: 1.6; stroke-dasharray: 5 3; }
.whence svg .chance { stroke: var(--dim); stroke-width: 1.4; stroke-dasharray: 1.5 2.5; }
.whence svg .column { fill: var(--bar); }
.whence svg .shape { fill: var(--shape); stroke: var(--bar); stroke-width: 1; }
.whence svg .whisker { stroke: var(--dim); stroke-width: 1; }
.whence svg .quartiles { stroke: var(--own); stroke-width: 5; }
.whence svg .median { fill: #fff; stroke: var(--own); stroke-width: 1.6; }
.whence svg polyline.own { fill: none; stroke: var(--own); stroke-width: 1.8; }
.whence svg circle.own { fill: var(--own); }
.whence svg .reach { stroke: var(--own); stroke-width: 2.2; }
.whence svg .column ~ .reach { stroke: var(--ink); stroke-width: 1.6; }
.whence svg .holds { fill: var(--held); }
.whence svg .fails { fill: none; stroke: var(--faint); }
.whence .track { width: 150px; height: 14px; vertical-align: middle; }
.whence .heat { border-collapse: separate; border-spacing: 2px; }
.whence .heat td.n { padding: .22rem .45rem; border-radius: 3px; text-align: right; color: #000; }
.whence .heat td.none { color: var(--dim); }
.whence .heat th { font-weight: 500; border: 0; padding: .15rem .5rem .15rem 0; font-size: .82rem; }
.whence .heat thead th { vertical-align: bottom; min-width: 3.4rem; }
.whence .example { border-left: 3px solid var(--rule); padding-left: .8rem; margin: .8rem 0 1.2rem; }
.whence .example .who { margin-top: .5rem; font-size: .9rem; overflow-wrap: anywhere; }
.whence .example .strip { font-size: 1rem; line-height: 1.85; margin: 0; }
.whence .strip mark.pale { background: none; color: inherit; }
.whence mark, .whence .heat td { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
"""

DARK = """
  .whence { --own: #8cc0f0; --bar: #4f86bd; --shape: #27445f; --line: #f0a35e; --held: #1c3327; --faint: #333c45; }
  .whence svg .median { fill: #12161b; }
"""
