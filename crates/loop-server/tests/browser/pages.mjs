// The pages in a browser: every state of a run, the slider over all its events, keyboard, hostile texts, the list and the
// comparison, and a page that follows a run. `cargo xtask browser` runs it.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser, check, finish, loopgate, leads, opened, painted, passes, pictured, reads, started, state, until } from "./harness.mjs";

const file = (name) => join(state, name);
const scripted = (name, replies) => {
  writeFileSync(file(`${name}.json`), JSON.stringify({ version: 1, replies }));
  return `base=scripted/${file(`${name}.json`)}`;
};
const paged = (name) => {
  loopgate(["show", "last", "--html", file(`${name}.html`)]);
  return `file://${file(`${name}.html`)}`;
};

// Pages that differ from another one in a part.
const TWO_WINDOWS = [{ width: 1200, colorScheme: "light" }, { width: 390, colorScheme: "dark" }];

// ---- a run in every state ----

const pages = {};
loopgate(["run", "examples/helpdesk", "examples/helpdesk/tickets/T-1042.json", "--no-save"]);
pages.document = paged("document");
loopgate(["run", "examples/helpdesk", "examples/helpdesk/tickets/T-1043.json", "--no-save", "--profile", "scripted"]);
pages.priced = paged("priced");
const contract = (confidence) =>
  `\`\`\`json\n${JSON.stringify({ nonce: "{{nonce}}", analysis_confidence: confidence, confidence_reason: "The record says it.", ai_actions: [] })}\n\`\`\`\n`;
const stated = scripted("stated", [
  { for: "select", text: JSON.stringify([{ tool: "fetch_device_info", params: { target: "HAR-LT-014" }, reason: "the ticket is about it" }]) },
  { for: "main", text: `## 🔍 Situation

Ingrid Solheim of Harbor & Pine Shipping reports a full disk on HAR-LT-014 [E0].

## 📋 Findings

- HAR-LT-014 has **3.1 GB** of 256 GB free, that is 1.2 % [E1].
- The nightly image is job \`BJ-HAR-07\` [E1], and a new disk costs $420 [E1].
- It says </mark><img src=x onerror=alert(5)> 7 GB [E1].

## 🧠 Cause

The disk is too small for a mail cache that keeps everything [E1].

## ✅ Next steps

1. Close the ticket T-1042 [E1].
2. Clean up C: until 64 GB are free [E1].

## ✉️ Customer reply

Hello Ingrid, your disk is nearly full. We free space over lunch.

${contract("high")}` },
]);
loopgate(["run", "examples/helpdesk", "examples/helpdesk/tickets/T-1042.json", "--no-save", "--model", stated, "--model", stated.replace("base=", "selector=")], [0, 3, 4]);
pages.stated = paged("stated");
const hostile = "</title></pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202e[x](javascript:alert(3))![y](https://evil.example/p.png)";
loopgate(["run", "examples/crm", "--text", hostile, "--model", scripted("hostile", [
  { calls: [{ name: "<script>", arguments: { x: "</td><svg onload=alert(4)>" } }] }, { text: hostile },
])]);
pages.hostile = paged("hostile");
const many = Array.from({ length: 660 }, (_, n) => ({ calls: [{ name: "search_user", arguments: { name: `Name ${n}` } }] }));
many.push({ text: "These are all." });
loopgate(["run", "examples/crm", "--text", "Find all of them.", "--model", scripted("many", many),
  ...["limits.passes=700", "limits.model_calls=1500", "limits.tool_calls=1500", "limits.messages=5000"].flatMap((set) => ["--set", set])]);
pages.long = paged("long");
loopgate(["run", "examples/crm", "--text", "Find Bob and update his company to EPAM", "--model", scripted("waits", [
  { calls: [{ name: "update_user", arguments: { id: 42, company: "EPAM" } }] }, { text: "It is done." },
])], [5]);
pages.waiting = paged("waiting");

for (const [name, address] of Object.entries(pages)) {
  const some = { long: { windows: [{ width: 390, colorScheme: "light" }], isJudged: false }, stated: { windows: TWO_WINDOWS } };
  await passes(name, address, some[name] ?? {});
}

// ---- the slider: every event, by keyboard, against what the page itself says of each element ----

const shows = (page) => page.evaluate(() => {
  const at = Number(document.getElementById("at").value);
  const wrong = [];
  for (const it of document.querySelectorAll("[data-from]")) {
    const until = it.dataset.until === undefined ? Infinity : Number(it.dataset.until);
    const due = Number(it.dataset.from) <= at && at < until;
    // An element of an SVG is hidden by `display`.
    if (due === it.matches("[hidden], [display=none]")) wrong.push(it.outerHTML.slice(0, 100));
  }
  return { at, wrong, now: document.querySelector("#now > span:not([hidden])").textContent, text: document.getElementById("at").getAttribute("aria-valuetext") };
});

for (const name of ["document", "priced", "waiting", "stated"]) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 } });
  const page = await opened(context);
  await page.goto(pages[name]);
  const last = Number(await page.getAttribute("#run", "data-last"));
  await page.focus("#at");
  for (let at = last; at >= 0; at -= 1) {
    const seen = await shows(page);
    check(`${name}: the slider is at ${at}`, seen.at === at, seen.at);
    check(`${name} at ${at} shows what is of it`, seen.wrong.length === 0, seen.wrong[0]);
    check(`${name} at ${at} says where it is`, seen.now.startsWith(`${at} / ${last}`) && seen.text === seen.now, seen.now);
    await page.keyboard.press("ArrowLeft");
  }
  await page.click("#newest");
  check(`${name}: there is a way back to the newest event`, (await shows(page)).at === last);
  check(`${name}: the slider makes no error`, page.troubles.length === 0, page.troubles.join("; "));
  await context.close();
}

// ---- a step at 2,000 events: script, style and layout together ----

{
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 } });
  const page = await opened(context);
  await page.goto(pages.long);
  const figures = await page.evaluate(() => {
    const slider = document.getElementById("at");
    const last = Number(slider.max);
    const step = (at) => {
      const before = performance.now();
      slider.value = String(at);
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      document.body.getBoundingClientRect();
      return performance.now() - before;
    };
    const steps = [];
    for (let n = 1; n <= 100; n += 1) steps.push(step(last - n));
    const jump = step(0);
    steps.sort((a, b) => a - b);
    return { last, elements: document.querySelectorAll("*").length, median: steps[50], worst: steps[99], jump };
  });
  const { last, elements, median, worst, jump } = figures;
  console.log(`a step at ${last + 1} events (${elements} elements): median ${median.toFixed(1)} ms, slowest of 100 ${worst.toFixed(1)} ms; from the last event to the first ${jump.toFixed(0)} ms`);
  check("the long run has 1,900 events and more", last >= 1_900, last);
  await context.close();
}

// ---- links, and reading without scripts ----

{
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 } });
  const page = await opened(context);
  await page.goto(pages.document);
  await page.click("#document .document:not([hidden]) a[href^='#E']");
  const target = () => page.evaluate(() => { const it = location.hash && document.querySelector(location.hash); return it && it.open && !it.hidden; });
  check("a citation opens its evidence", await until(target, (is) => is));
  await page.keyboard.press("Control+Home");
  await page.goto(pages.document);
  await page.keyboard.press("Tab");
  check("the first stop of the keyboard skips to the content", (await page.evaluate(() => document.activeElement.className)) === "skip");
  await context.close();
  const plain = await browser.newContext({ javaScriptEnabled: false, viewport: { width: 1200, height: 900 } });
  const reader = await opened(plain);
  await reader.goto(pages.document);
  check("the document is read without scripts", (await reads(reader, "#document", "[E1]")).includes("[E1]"));
  check("what needs a script is not there without one", !(await reader.isVisible("#at")));
  const order = await reader.$$eval(".part", (all) => all.map((it) => it.id).join());
  check("the document is first, then what is contradicted, why, money, actions and the timeline",
    order.startsWith("document,values,gate,money,actions,timeline,"), order);
  const top = await reader.$eval("#document h2", (it) => it.getBoundingClientRect().top);
  check("the document begins in the first window", top < 500, top);
  await reader.click("#document .toc a[href='#s-next_steps']");
  const led = await reader.$eval("#s-next_steps", (it) => ({ top: it.getBoundingClientRect().top, at: location.hash }));
  check("the table of contents leads to a section without scripts", led.at === "#s-next_steps" && led.top >= 0 && led.top < 900, JSON.stringify(led));
  check("the timeline is folded by pass", (await reader.locator("#timeline details.pass:not([open])").count()) > 0 && !(await reader.isVisible("#timeline table")));
  await reader.click("#timeline details.pass summary");
  check("a pass opens without scripts", await reader.isVisible("#timeline table"));
  await plain.close();
}

// ---- values of the document: marked by what was found out, and led to their place ----

{
  const context = await browser.newContext({ viewport: { width: 1000, height: 720 } });
  const page = await opened(context);
  await page.goto(pages.stated);
  const marks = (look) => page.$$eval(`#document .document:not([hidden]) .v-${look}:not([hidden])`, (all) => all.map((it) => it.textContent));
  const [found, contradicted, unchecked] = [await marks("found"), await marks("contradicted"), await marks("not_checked")];
  check("what the evidence has is found", ["3.1 GB", "BJ-HAR-07"].every((it) => found.includes(it)), found.join());
  check("an id that only the item has is found there", found.some((it) => it.startsWith("T-1042 (found: not in the cited evidence, the work item)")), found.join());
  check("what nothing has has the mark", ["$420", "64 GB"].every((it) => contradicted.some((has) => has.startsWith(`${it}[?] (contradicted: `))), contradicted.join());
  const counts = [`${found.length} found`, `${contradicted.length} contradicted`, `${unchecked.length} not checked`];
  const totals = await reads(page, "#values p.claims:not([hidden])", ...counts);
  check("the totals are those of the marks", counts.every((it) => totals.includes(it)), totals);
  await page.$eval("#document", (it) => it.scrollIntoView());
  await pictured(page, "run-values");
  await page.focus("#document .document:not([hidden]) strong a.v-found");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /^#E1-\d+$/.test(location.hash));
  // The browser scrolls there, and the page opens what holds it, after the address has changed.
  const find = () => page.evaluate(() => {
    const it = document.querySelector(":target");
    if (!it) return null;
    const { top, bottom } = it.getBoundingClientRect();
    return { text: it.textContent, seen: top >= 0 && bottom <= innerHeight, open: it.closest("details").open, colour: getComputedStyle(it).backgroundColor };
  });
  const isLed = (it) => it && it.text.includes("3.1") && it.seen && it.open && it.colour !== "rgba(0, 0, 0, 0)";
  const place = await until(find, isLed);
  check("a value leads to its place, which is seen and highlighted", isLed(place), JSON.stringify(place));
  const listed = await reads(page, "#values .against", "$420", "64 GB");
  check("the values against the evidence are listed", ["$420", "64 GB"].every((it) => listed.includes(it)), listed);
  await page.focus("#at");
  await page.keyboard.press("Home");
  const count = async () => (await marks("found")).length + (await marks("contradicted")).length;
  check("at the first event nothing is stated", (await until(count, (it) => it === 0)) === 0);
  check("marks make no error, whatever a value is", page.troubles.length === 0, page.troubles.join("; "));
  await context.close();
}

// ---- the same pages on a server, for the person at this machine ----

const viewing = await started(["view", "last"], /then: +(\S+)\n/);
const login = viewing.text.match(/open: +(\S+)/)[1];
const address = viewing.text.match(/then: +(\S+)/)[1];
const origin = new URL(login).origin;
const session = await browser.newContext({ viewport: { width: 1200, height: 900 } });
const page = await opened(session);
await page.goto(login);
check("the code opens the list of runs", page.url() === `${origin}/` && (await page.innerText("h1")) === "Runs", page.url());
check("what waits is first", (await page.innerText("main section")).includes("1 run waits for a person"));
await page.setViewportSize({ width: 1000, height: 720 });
await pictured(page, "runs");
await page.setViewportSize({ width: 1200, height: 900 });
await page.selectOption("#f-domain", "helpdesk");
await leads(page, "text=Show", /domain=helpdesk/);
check("a filter narrows the list", (await page.innerText("main")).includes("3 runs: 3 answered"), await page.innerText("main"));
const storageState = await session.storageState();
const path = new URL(address).pathname;
const ids = loopgate(["runs"]).stdout.split("\n").filter(Boolean).map((line) => line.split("\t")[0]);
const addresses = { runs: "/", run: path, then: `${path}?at=1`, approve: `${path}/approve`, compare: `/compare?a=${ids[3]}&b=${ids[4]}` };
for (const [name, at] of Object.entries(addresses)) await passes(`served ${name}`, origin + at, { storageState });

// A page at an event without scripts shows what the slider shows there.
{
  const plain = await browser.newContext({ storageState, javaScriptEnabled: false });
  const reader = await opened(plain);
  await reader.goto(`${origin}${path}?at=1`);
  const without = await reader.$$eval("[data-from]", (all) => all.map((it) => !it.matches("[hidden], [display=none]")).join());
  await page.goto(origin + path);
  await page.evaluate(() => { const it = document.getElementById("at"); it.value = "1"; it.dispatchEvent(new Event("input", { bubbles: true })); });
  const withScript = await page.$$eval("[data-from]", (all) => all.map((it) => !it.matches("[hidden], [display=none]")).join());
  const differs = without.split(",").findIndex((it, n) => it !== withScript.split(",")[n]);
  const which = differs < 0 ? "" : await page.$$eval("[data-from]", (all, n) => all[n].outerHTML.slice(0, 300), differs);
  check("?at=1 without scripts is the slider at 1", without === withScript, which);
  check("the slider is in the address", page.url().endsWith("?at=1"), page.url());
  check("there are links to the events before and after", (await reader.locator("a[rel=prev], a[rel=next]").count()) === 2);
  await plain.close();
}

// ---- a page follows its run, and loses neither place nor slider ----

{
  await page.goto(origin + path);
  await page.focus("#at");
  const y = await page.evaluate(() => {
    document.querySelector("#events details").open = true;
    scrollTo(0, 300);
    return scrollY;
  });
  loopgate(["deny", ids[0], "1/action-0", "--why", "not now"], [0, 3, 4, 5]);
  // The page may be renewed at an event before the answer.
  const look = () => page.evaluate(() => ({
    y: scrollY, focus: document.activeElement.id, open: document.querySelector("#events details").open,
    at: Number(document.getElementById("at").value), last: Number(document.getElementById("run").dataset.last),
    people: document.getElementById("people").textContent,
  }));
  const after = await until(look, (it) => it.people.includes("denied: not now"));
  check("the page has the answer", after.people.includes("denied: not now"), after.people);
  check("the slider follows the newest event", after.at === after.last, JSON.stringify(after));
  check("scroll, focus and what was open stay", after.y === y && y > 0 && after.focus === "at" && after.open, JSON.stringify(after));
}

// ---- pictures for the docs ----

for (const [name, address, part] of [
  ["run", pages.priced, null],
  ["run-document", pages.document, "document"],
  ["run-gate", pages.priced, "gate"],
]) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 720 } });
  const picture = await opened(context);
  await picture.goto(address);
  if (part) await picture.$eval(`#${part}`, (it) => it.scrollIntoView());
  await pictured(picture, name);
  await context.close();
}
await viewing.end();
await finish();
