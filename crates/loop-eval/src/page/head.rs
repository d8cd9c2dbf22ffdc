//! The HTML head of every page: the content security policy, and a style for light and dark, narrow and wide windows.

pub(super) const BEFORE_TITLE: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<meta name=\"referrer\" content=\"no-referrer\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
";

pub(super) const AFTER_TITLE: &str = "
<style>
:root { color-scheme: light dark; --ink: #1a202c; --soft: #4a5568; --line: #e2e8f0; --back: #ffffff; --shade: #f4f6f9; --good: #22683f; --bad: #b3261e; --mark: #2b6cb0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #a9b3c1; --line: #353c48; --back: #14171c; --shade: #1f242c; --good: #7fd3a0; --bad: #ff9a8f; --mark: #7fb2ea; }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--back); }
main { margin: 0 auto; max-width: 64rem; padding: 1.5rem 1rem 3rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; line-height: 1.3; margin: 2rem 0 .6rem; }
h3, h4 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p { margin: .5rem 0; }
.wide { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: 13px; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td { max-width: 34rem; white-space: pre-line; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.w { white-space: nowrap; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.verdict { font-weight: 600; }
pre, code { font: 13px/1.45 ui-monospace, monospace; background: var(--shade); }
pre { padding: .6rem .8rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
code { padding: .05rem .25rem; }
blockquote { margin: .5rem 0; padding-left: .8rem; border-left: 3px solid var(--line); color: var(--soft); }
.document { border: 1px solid var(--line); border-radius: 6px; padding: .2rem 1rem .8rem; margin: .8rem 0; }
svg { display: block; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); }
svg .axis { stroke: var(--line); }
svg .mark { stroke: var(--mark); fill: var(--mark); }
td a { color: inherit; }
details { border-top: 1px solid var(--line); padding: .4rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
main:has(#only-bad:checked) .part-good { display: none; }
.legend span { display: inline-block; margin-right: 1.2rem; font-size: 13px; }
.legend svg { display: inline-block; }
</style>
</head>
<body>
<main>
";
