// What the tests of the pages share: the command, a browser, and the checks that every page has to pass.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const root = process.env.LOOPGATE_ROOT;
const binary = process.env.LOOPGATE_BINARY;
/// Where pictures for the docs are written. Undefined: none are.
const pictures = process.env.LOOPGATE_PICTURES;

/// Milliseconds within which what has to happen happens, on a machine that is busy too. It matters only when a check fails.
const PATIENCE = 120_000;

export const state = mkdtempSync(join(tmpdir(), "loopgate-browser-"));
process.on("exit", () => rmSync(state, { recursive: true, force: true, maxRetries: 5 }));
const env = { ...process.env, XDG_STATE_HOME: state, XDG_CACHE_HOME: join(state, "cache") };

/// Runs the command, and gives what it printed.
export const loopgate = (args, codes = [0]) => {
  const ran = spawnSync(binary, args, { cwd: root, env, encoding: "utf8", maxBuffer: 1 << 28 });
  if (!codes.includes(ran.status)) throw new Error(`loopgate ${args.join(" ")}: ${ran.status}\n${ran.stdout}${ran.stderr}`);
  return ran;
};

/// Starts the command, which prints a line like this on standard error and stays; gives the line and an end of it.
export const started = (args, line) =>
  new Promise((resolve, reject) => {
    const child = spawn(binary, args, { cwd: root, env, stdio: ["ignore", "ignore", "pipe"] });
    let text = "";
    process.on("exit", () => child.kill("SIGKILL"));
    child.stderr.on("data", (data) => {
      text += data;
      const found = text.match(line);
      if (found) resolve({ text, found, end: () => { child.kill("SIGTERM"); return ended; } });
    });
    const ended = new Promise((done) => child.on("exit", done));
    ended.then((code) => reject(new Error(`loopgate ${args.join(" ")} ended with ${code}: ${text}`)));
  });

const executablePath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"].find((it) => it && existsSync(it));
if (!executablePath) throw new Error("there is no Chromium; install Debian's package chromium, or name it in CHROMIUM");
export const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"], timeout: PATIENCE });

const failures = [];
let checks = 0;
export const check = (name, holds, detail = "") => {
  checks += 1;
  if (!holds) failures.push(`${name}${detail === "" ? "" : `: ${detail}`}`);
};

export const finish = async () => {
  await browser.close();
  for (const failure of failures) console.error(`FAILED ${failure}`);
  console.log(`${checks} checks, ${failures.length} failed`);
  process.exit(failures.length === 0 ? 0 : 1);
};

/// Reads until what was read is as it has to be, or the time is over; gives what was read last.
export const until = async (read, holds) => {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const seen = await read();
    if (holds(seen) || Date.now() > end) return seen;
    await pause(50);
  }
};

/// Waits until a page has been painted. Before that the browser drops keys and clicks, and what a page leaves out until it
/// is near the window (`content-visibility: auto`) has neither a text nor a size.
export const painted = async (page) => {
  const paints = () => page.evaluate(() => performance.getEntriesByName("first-contentful-paint").length);
  if ((await until(paints, (count) => count > 0)) === 0) throw new Error(`${page.url()} was not painted`);
};

/// The text of an element as a person sees it, as soon as it has all of these parts, or when the time is over.
export const reads = async (page, selector, ...parts) => {
  const element = page.locator(selector).first();
  const read = async () => { await element.scrollIntoViewIfNeeded(); return element.innerText(); };
  return until(read, (text) => parts.every((part) => text.includes(part)));
};

/// Clicks what leads to another page, and waits for that page: a click does not.
export const leads = async (page, selector, address) => {
  await page.click(selector);
  await page.waitForURL(address);
  await painted(page);
};

/// A page whose every error and every request is kept, except for statuses that are `expected`. It is painted when it is
/// there.
export const opened = async (context, { expected = [] } = {}) => {
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  for (const name of ["goto", "reload"]) {
    const usual = page[name].bind(page);
    page[name] = async (...args) => { const response = await usual(...args); await painted(page); return response; };
  }
  page.troubles = [];
  page.on("console", (message) => {
    const isExpected = expected.some((status) => message.text().includes(`responded with a status of ${status} `));
    if (["error", "warning"].includes(message.type()) && !isExpected) page.troubles.push(message.text());
  });
  page.on("pageerror", (error) => page.troubles.push(error.message));
  page.on("dialog", (dialog) => { page.troubles.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    const url = request.url();
    const own = url.startsWith("file:") || url.startsWith("http://127.0.0.1:");
    if (!own) page.troubles.push(`a request to ${url}`);
  });
  return page;
};

const WINDOWS = [
  { width: 1200, colorScheme: "light" },
  { width: 1200, colorScheme: "dark" },
  { width: 390, colorScheme: "dark" },
  { width: 360, colorScheme: "light" },
];

/// What every page has to be, in wide and narrow windows, light and dark: without an error, without a request to another
/// place, no wider than the window, and without a finding of axe of these impacts, unless the page is too long for it.
/// `prepare` brings the page into the state that is checked.
export const passes = async (name, address, { windows = WINDOWS, storageState, isJudged = true, expected, impacts = ["serious", "critical"], prepare = async () => {} } = {}) => {
  for (const { width, colorScheme } of windows) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, storageState });
    // What is judged is not renewed meanwhile.
    await context.addInitScript(() => { window.fetch = () => new Promise(() => {}); });
    const page = await opened(context, { expected });
    const at = `${name} at ${width} ${colorScheme}`;
    await page.goto(address);
    await prepare(page, at);
    const [wide, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    check(`${at} is no wider than the window`, wide <= inner, `${wide} > ${inner}`);
    // What is not in the window is judged as well.
    await page.evaluate(() => document.styleSheets[0].insertRule(".part { content-visibility: visible !important; }"));
    await page.evaluate(() => { for (const it of document.querySelectorAll("details")) it.open = true; });
    // The page's policy forbids scripts of others, so axe comes by the browser's own door.
    if (isJudged) await page.evaluate(`${axe};0`);
    const found = isJudged ? await page.evaluate(() => axe.run(document)) : { violations: [] };
    const counted = found.violations.filter((it) => impacts.includes(it.impact));
    check(`${at} has no finding of axe`, counted.length === 0,
      counted.map((it) => `${it.id}: ${it.nodes[0].html.slice(0, 120)}`).join("; "));
    check(`${at} has no error`, page.troubles.length === 0, page.troubles.join("; "));
    await context.close();
  }
};

/// A picture for the docs.
export const pictured = async (page, name, clip) => {
  if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`), clip });
};
