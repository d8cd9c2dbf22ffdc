// The documentation's site: axe on a share of its pages or on all, the search by keyboard, and how long the slowest
// page takes to load, which is printed and not checked. `cargo xtask site` runs it.

import { createReadStream, readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { browser, check, finish, opened, passes, until } from "./harness.mjs";

const [site, share] = process.argv.slice(2);
const TYPES = { html: "text/html", css: "text/css", js: "text/javascript", svg: "image/svg+xml", png: "image/png", woff2: "font/woff2" };

const server = createServer((request, response) => {
  const path = join(site, decodeURIComponent(new URL(request.url, "http://site").pathname));
  const file = path.endsWith("/") ? join(path, "index.html") : path;
  response.setHeader("content-type", TYPES[file.split(".").pop()] ?? "text/plain");
  createReadStream(file).on("error", () => { response.statusCode = 404; response.end(); }).pipe(response);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const origin = `http://127.0.0.1:${server.address().port}`;

const all = readdirSync(site, { recursive: true }).filter((it) => it.endsWith(".html") && it !== "toc.html" && !it.endsWith("README.html")).sort();
const having = (part) => all.find((it) => it.startsWith("docs/") && readFileSync(join(site, it), "utf8").includes(part));
const longest = all.toSorted((a, b) => statSync(join(site, b)).size - statSync(join(site, a)).size)[0];
const decision = all.find((it) => it.startsWith("docs/adr/0"));
const some = new Set(["index.html", longest, having("<table"), having('<code class="language-rust'), decision]);

const strict = { impacts: ["minor", "moderate", "serious", "critical"], windows: [] };
for (const width of [390, 1280]) for (const colorScheme of ["light", "dark"]) strict.windows.push({ width, colorScheme });

const slowest = { page: "", ms: 0, passed: 0 };
for (const name of share === "all" ? all : some) {
  await passes(`site ${name}`, `${origin}/${name}`, strict);
  const context = await browser.newContext();
  const page = await opened(context);
  const tools = await context.newCDPSession(page);
  await tools.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.goto(`${origin}/${name}`);
  const { metrics } = await tools.send("Performance.getMetrics");
  const ms = Math.round(1000 * metrics.find((it) => it.name === "TaskDuration").value);
  const passed = await page.evaluate(() => Math.round(performance.getEntriesByType("navigation")[0].loadEventEnd));
  if (ms > slowest.ms) Object.assign(slowest, { page: name, ms, passed });
  await context.close();
}

const searches = async (page, at) => {
  await page.keyboard.press("s");
  await page.keyboard.type("budget");
  const results = page.locator("#mdbook-searchresults a");
  check(`${at} finds pages`, (await until(() => results.count(), (count) => count > 0)) > 0);
};
await passes("site search", `${origin}/index.html`, { ...strict, prepare: searches });
const page = await opened(await browser.newContext());
await page.goto(`${origin}/index.html`);
await searches(page, "site search by keyboard");
await page.keyboard.press("ArrowDown");
await page.keyboard.press("Enter");
await page.waitForURL(/highlight=budget/);
check("a result is reached by keyboard", page.troubles.length === 0, page.troubles.join("; "));

console.log(`site: the slowest page, ${slowest.page}, loaded in ${slowest.ms} ms of computing, ${slowest.passed} ms passed`);
server.close();
await finish();
