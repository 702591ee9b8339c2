"""The report's style sheet: quiet, light and dark, nothing from the network. The palette is that of the demo's report."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink:#1b1f24; --soft:#5c6670; --page:#ffffff; --card:#f5f6f8; --line:#dde1e6;
--ok:#1a7f4b; --bad:#c0292b; --bad-back:#fdecec; --warn:#95600d; --warn-back:#fdf4e3; --bar:#2466b8;
--faint:#c9d3df; } @media (prefers-color-scheme: dark) { :root { --ink:#e8eaed; --soft:#a3adb8; --page:#14171b;
--card:#1d2127; --line:#343b44; --ok:#4cc38a; --bad:#ff7b7b; --bad-back:#3a1d20; --warn:#e8b35f;
--warn-back:#33291a; --bar:#6aa9ff; --faint:#3c4653; } } * { box-sizing:border-box }
body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,sans-serif }
main { max-width:1080px; margin:0 auto; padding:32px 20px 60px } h1 { font-size:28px; margin:0 0 4px }
h2 { font-size:20px; margin:44px 0 6px } h3 { font-size:15px; margin:22px 0 6px }
p { margin:6px 0 12px; color:var(--soft); max-width:78ch } code { font:13px ui-monospace,monospace }
a { color:var(--bar) } .verdict { display:inline-block; padding:4px 16px; border-radius:999px; color:var(--page);
background:var(--ok); font-weight:600 } .verdict.failed { background:var(--bad) }
.verdict.partial { background:var(--warn) } .alarm { border:2px solid var(--bad); background:var(--bad-back);
border-radius:8px; padding:12px 16px; margin:18px 0; overflow-wrap:anywhere }
.alarm b { color:var(--bad); font-size:18px } .alarm p { color:var(--ink); max-width:none }
.note { border:1px solid var(--warn); background:var(--warn-back); border-radius:8px; padding:8px 16px;
margin:14px 0 } .note p { color:var(--ink) }
.facts { display:grid; grid-template-columns:repeat(auto-fit,minmax(220px,1fr)); gap:12px; margin:22px 0 }
.fact { background:var(--card); border:1px solid var(--line); border-radius:8px; padding:12px 14px }
.fact b { display:block; font-size:24px; font-variant-numeric:tabular-nums }
.fact span { color:var(--soft); font-size:14px } .fact.failed b { color:var(--bad) } .scroll { overflow-x:auto }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:15px }
th,td { text-align:left; padding:6px 10px; border-bottom:1px solid var(--line); vertical-align:top }
th { font-size:13px; color:var(--soft); font-weight:600 } td.n,th.n { text-align:right; white-space:nowrap }
.parts td:first-child { width:24%; min-width:190px } .parts td:nth-child(2) { white-space:nowrap }
.parts td:last-child { min-width:150px }
td.words { font-size:14px; color:var(--soft); overflow-wrap:anywhere; min-width:260px }
tr.failed td { background:var(--bad-back) } tr.failed td.words { color:var(--ink) }
.ok { color:var(--ok); font-weight:600 } .failed-word { color:var(--bad); font-weight:700 }
.partial-word { color:var(--warn); font-weight:600 } .soft { color:var(--soft) }
.older { color:var(--warn); font-size:13px; display:block }
.same { color:var(--soft); font-size:13px; display:block }
.missing { border-left:3px solid var(--warn); padding-left:12px; color:var(--warn) }
.chips { display:flex; flex-wrap:wrap; gap:6px; margin:8px 0 } .chip { border:1px solid var(--line);
background:var(--card); border-radius:6px; padding:2px 8px; font:12px/1.6 ui-monospace,monospace }
.chip i { font-style:normal; color:var(--soft) }
.chip.failed { border-color:var(--bad); color:var(--bad); background:var(--bad-back); font-weight:700 }
.chip.grey { color:var(--soft); border-style:dashed; background:none }
.grid td { text-align:center; border:1px solid var(--line); padding:5px 6px; font-size:13px }
.grid th { border:1px solid var(--line); padding:5px 8px } .grid td.hit { color:var(--ok); font-weight:600 }
.grid td.gap { color:var(--bad); background:var(--bad-back); font-weight:700 } .grid td.none { color:var(--faint) }
svg { width:100%; max-width:620px; height:auto; display:block } svg text { font:12px system-ui,sans-serif; fill:var(--ink) }
svg .tick { fill:var(--soft) } .bar { fill:var(--bar) } .axis { stroke:var(--line) }
.mark { stroke:var(--ink); stroke-width:1.5 } .limit { stroke:var(--bad); stroke-width:1.5; stroke-dasharray:5 3 }
svg .limit-name { fill:var(--bad) }
.two { display:grid; grid-template-columns:repeat(auto-fit,minmax(420px,1fr)); gap:8px 32px }
details summary { cursor:pointer; color:var(--soft) } @media (max-width:520px) { .two { grid-template-columns:1fr } }
"""
