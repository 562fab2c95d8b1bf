// How pages look. Colours are pairs for light and dark; a test computes the contrast of each text
// on its ground (4.5 and more) and of what is drawn (3 and more). Numbers keep their columns, wide
// tables scroll inside their own box, and paper gets the light colours.
#include "harness/report/html/page.h"

namespace gradsync::html {

const char* const kStyle = R"css(
:root {
  --ground: #fcfcfa; --card: #ffffff; --ink: #1b2026; --muted: #55606b; --line: #d8dcd6;
  --each: #b4531a; --once: #1d6c8a; --mark: #000000;
  --good: #17633a; --good-ground: #e3f2e8; --bad: #9d2226; --bad-ground: #fbe7e5;
  --unsure: #6d5000; --unsure-ground: #f8efd2; --none: #4d5761; --none-ground: #ebedea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --card: #1b1f23; --ink: #e7e9eb; --muted: #a6afb8; --line: #363d44;
    --each: #c97641; --once: #3d94b5; --mark: #ffffff;
    --good: #86d6a5; --good-ground: #16301f; --bad: #f6a5a0; --bad-ground: #3c1a1b;
    --unsure: #e9c565; --unsure-ground: #33290c; --none: #b7c0c8; --none-ground: #2a3036;
  }
}
@media print {
  :root {
    --ground: #ffffff; --card: #ffffff; --ink: #000000; --muted: #404850; --line: #b5bab4;
    --each: #b4531a; --once: #1d6c8a; --mark: #000000;
    --good: #17633a; --good-ground: #ffffff; --bad: #9d2226; --bad-ground: #ffffff;
    --unsure: #6d5000; --unsure-ground: #ffffff; --none: #4d5761; --none-ground: #ffffff;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 3rem; overflow-wrap: anywhere; }
header + section h2 { margin-top: 1.5rem; }
h1 { font-size: clamp(1.35rem, 1.15rem + 1.2vw, 1.85rem); line-height: 1.3; font-weight: 650;
  letter-spacing: -0.01em; margin: 0.35rem 0 1rem; max-width: 34em; text-wrap: balance; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 1rem; padding-top: 1.5rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.08rem; line-height: 1.4; margin: 2.2rem 0 0.5rem; }
h4 { font-size: 0.95rem; margin: 1.4rem 0 0.3rem; font-weight: 600; }
p, ul, dl { margin: 0.5rem 0; max-width: 44rem; }
ul { padding-left: 1.2rem; }
li { margin: 0.25rem 0; }
a { color: var(--once); }
code { font: 0.9em ui-monospace, SFMono-Regular, Menlo, "Liberation Mono", monospace; }
.kicker, .about, .place, footer, figcaption { color: var(--muted); font-size: 0.9rem; }
.kicker { margin: 0; }
.lead { font-size: 1.08rem; }
.badge { display: inline-block; padding: 0.05rem 0.55rem; border-radius: 1rem; font-size: 0.85rem;
  font-weight: 600; line-height: 1.5; border: 1px solid currentColor; }
td .badge { white-space: nowrap; }
.good { color: var(--good); background: var(--good-ground); }
.bad { color: var(--bad); background: var(--bad-ground); }
.unsure { color: var(--unsure); background: var(--unsure-ground); }
.none { color: var(--none); background: var(--none-ground); }
.scroll { overflow-x: auto; margin: 1rem 0; max-width: 100%; border: 1px solid var(--line);
  border-radius: 0.4rem; background: var(--card); }
.scroll:focus-visible { outline: 2px solid var(--once); }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.65rem; white-space: nowrap; overflow-wrap: normal; }
th { color: var(--muted); font-weight: 600; border-bottom: 1px solid var(--line); }
tr.group + tr.group td, tr:not(.group) + tr.group td { border-top: 1px solid var(--line); }
.l { text-align: left; } .r { text-align: right; } .c { text-align: center; }
figure { margin: 1.2rem 0; max-width: 44rem; }
figcaption { margin-bottom: 0.4rem; }
.key { display: inline-block; white-space: nowrap; margin-right: 0.9em; }
.key::before { content: ""; display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em;
  border-radius: 0.15em; background: currentColor; vertical-align: -0.05em; }
.key.each { color: var(--each); } .key.once { color: var(--once); }
.row { display: flex; flex-wrap: wrap; justify-content: space-between; column-gap: 1rem;
  margin: 0.35rem 0 0; font-size: 0.85rem; line-height: 1.4; font-variant-numeric: tabular-nums; }
.value { color: var(--muted); }
svg { display: block; width: 100%; overflow: visible; }
svg .each { fill: var(--each); } svg .once { fill: var(--once); } svg .rest { fill: var(--none); }
svg .track { fill: none; stroke: var(--line); }
svg .out { fill: none; stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; }
svg .interval { stroke: var(--mark); stroke-width: 2; }
svg .limit { stroke: var(--muted); stroke-width: 1.5; stroke-dasharray: 3 3; }
svg .zero { stroke: var(--muted); }
svg .dot { fill: var(--mark); }
.claim { border-top: 1px solid var(--line); padding: 1.1rem 0 0.6rem; }
.claim:first-of-type { border-top: 0; padding-top: 0; }
.claim h3 { margin: 0.5rem 0 0.2rem; }
.claim > p::first-letter { text-transform: uppercase; }
.claim ul { list-style: none; padding: 0; margin: 0.7rem 0; max-width: none; font-size: 0.93rem; }
.claim li { padding: 0.4rem 0 0.4rem 0.9rem; border-left: 3px solid var(--line); }
.claim .place { display: block; }
.change { border-left: 4px solid var(--once); background: var(--card); padding: 0.7rem 1rem;
  margin: 1rem 0; max-width: 44rem; }
details { margin: 1rem 0; }
summary { cursor: pointer; color: var(--once); padding: 0.3rem 0; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: 0.35rem 1.2rem; }
dt { color: var(--muted); } dd { margin: 0; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); }
@media (max-width: 30rem) {
  main { padding: 1.5rem 1rem 2rem; }
  dl { display: block; } dd { margin-bottom: 0.7rem; }
  th, td { padding: 0.35rem 0.6rem; }
  table { font-size: 0.85rem; }
}
@media print {
  html { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; border: 0; }
  table { font-size: 0.8rem; }
  th, td { padding: 0.2rem 0.4rem; white-space: normal; }
  h2 { margin-top: 1.5rem; padding-top: 0.8rem; }
  h2, h3, h4, figcaption, summary { break-after: avoid; }
  tr, svg, .claim li, .change { break-inside: avoid; }
  .row { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; }
  .each, .once, .rest, .badge { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

}  // namespace gradsync::html
