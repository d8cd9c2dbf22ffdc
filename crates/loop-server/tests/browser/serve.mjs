// A server with its engine behind its doors, as people use it: submit over the API, watch the run, approve on the page, see
// it end, slide through time, compare, log out. `cargo xtask browser` runs it after pages.mjs.

import { appendFileSync, cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { browser, check, finish, leads, loopgate, opened, painted, passes, pictured, root, started, state, until } from "./harness.mjs";

// What the run changes stays in the copy, in which a person has half an hour.
const domain = join(state, "crm");
cpSync(join(root, "examples/crm"), domain, { recursive: true });
appendFileSync(join(domain, "loopgate.toml"), "\n[limits]\nperson_ms = 1800000\n");
const tokens = join(state, "tokens.toml");
const token = (name, ...roles) =>
  loopgate(["serve", "tokens", "add", name, ...roles.flatMap((role) => ["--role", role]), "--file", tokens]).stdout.trim();
const program = token("program", "submit", "read");
const reader = token("reader", "read");
const decider = token("decider", "approve", "read");

const opens = join(state, "login");
const serving = await started(["serve", domain, "--listen", "127.0.0.1:0", "--tokens", tokens, "--login-file", opens], /open: +in /);
const login = readFileSync(opens, "utf8").trim();
const origin = new URL(login).origin;

const asked = async (path, { bearer = program, ...init } = {}) => {
  const response = await fetch(origin + path, { ...init, headers: { authorization: `Bearer ${bearer}`, ...init.headers } });
  return { status: response.status, body: await response.json() };
};
// Two submissions of the same item: one is approved, one is denied, so that there is something to compare.
const submitted = async (key, item) => {
  const headers = { "content-type": "application/json", "idempotency-key": key, prefer: "wait=30" };
  const { status, body } = await asked("/v1/runs", { method: "POST", headers, body: JSON.stringify({ item }) });
  check(`the submission ${key} is accepted`, [200, 201, 202].includes(status), `${status} ${JSON.stringify(body)}`);
  return reached(body.run, ["waiting", "ended"]);
};
/// The run as the API shows it when it is in one of these states.
const reached = (run, states) => until(async () => (await asked(`/v1/runs/${run}`)).body, (it) => states.includes(it.state));

// pages.mjs shows the pages of runs in more windows than these.
const windows = [{ width: 1200, colorScheme: "light" }, { width: 390, colorScheme: "dark" }];

// ---- the way in ----

const session = await browser.newContext({ viewport: { width: 1000, height: 720 } });
// Without a session a page is refused.
const page = await opened(session, { expected: [401] });
await page.goto(`${origin}/`);
check("without a session there is the form of the login", await page.isVisible("#token"), page.url());
await page.goto(login);
check("the address of the start opens the list", page.url() === `${origin}/` && (await page.innerText("h1")) === "Runs", page.url());
const storageState = await session.storageState();

// ---- submit, and watch on the page of the run ----

const first = await submitted("one", "search_user Bob, get_user_by_id 42, update_user 42 EPAM");
const second = await submitted("two", "search_user Bob, get_user_by_id 42, update_user 42 EPAM");
check("the run waits for a person", first.state === "waiting", JSON.stringify(first));
const watched = `${origin}/runs/${first.run}`;
await page.goto(watched);
check("the page follows the events of the server", (await page.getAttribute("#run", "data-events")) === `/v1/runs/${first.run}/events`);
check("the run has not ended on its page", (await page.getAttribute("#run", "data-ended")) === null);
const before = Number(await page.getAttribute("#run", "data-last"));
// A mark that a page which is loaded again does not have.
await page.evaluate(() => { window.isTheSamePage = true; });

// A form of another binding is refused.
const approver = await opened(session, { expected: [401, 409] });
await approver.goto(`${origin}/`);
check("what waits is first", (await approver.innerText("main section")).includes("2 runs wait for a person"), await approver.innerText("main"));
const links = await approver.$$eval("main section a", (all) => all.map((it) => it.getAttribute("href")));
check("what waits is linked to its decision", links.includes(`/runs/${first.run}/approve`), links.join());
for (const [name, at] of Object.entries({
  login: "/login", runs: "/", run: `/runs/${first.run}`, approve: `/runs/${first.run}/approve`, logout: "/logout",
})) await passes(`server ${name}`, origin + at, { windows, storageState: name === "login" ? undefined : storageState });

// ---- what waits, for one who follows a link ----

{
  const link = `${origin}/runs/${first.run}/approve`;
  const other = await browser.newContext({ timezoneId: "Asia/Tokyo", locale: "en-GB" });
  const theirs = await opened(other, { expected: [401, 403, 404, 410] });
  await theirs.goto(link);
  check("a link asks for a login and says nothing of the run", (await theirs.isVisible("#token")) && !(await theirs.content()).includes("update_user"), await theirs.innerText("main"));
  await passes("server login of a link", link, { windows, expected: [401] });
  await theirs.fill("#token", decider);
  await leads(theirs, "main button", new RegExp(`/runs/${first.run}/approve`));
  const asks = await theirs.innerText("main");
  check("after the login the link shows each value", ["EPAM", "42"].every((it) => asks.includes(it)), asks);
  await leads(theirs, ".site a[href='/pending']", /pending$/);
  const list = await theirs.innerText("main");
  check("the list says what waits and what it does", list.includes("2 actions wait") && list.includes("Decide update_user"), list);
  const header = (await theirs.innerText(".site")).replace(/\s+/g, " ");
  check("the header says who reads, with which roles, and how much waits", ["decider", "read, approve", "Pending 2"].every((it) => header.includes(it)), header);
  await theirs.goto(`${origin}/no/such/page`);
  check("a page that is not there has a way back", (await theirs.locator("main a[href='/pending']").count()) === 1, await theirs.innerText("main"));
  const storageState = await other.storageState();
  await passes("server pending", `${origin}/pending`, { windows, storageState });
  await passes("server problem", `${origin}/no/such/page`, { windows, storageState, expected: [404] });
  await theirs.goto(`${origin}/links/e30.00`);
  check("a forged link is a page", (await theirs.innerText("h1")) === "Unknown link", await theirs.innerText("main"));
  check("no page had an error", theirs.troubles.length === 0, theirs.troubles.join("; "));
  await other.close();
  // Without scripts, and in the time of the reader.
  for (const [javaScriptEnabled, zone] of [[false, "UTC"], [true, "GMT+9"]]) {
    const plain = await browser.newContext({ javaScriptEnabled, timezoneId: "Asia/Tokyo", locale: "en-GB", storageState });
    const page = await plain.newPage();
    await page.goto(`${origin}/pending`);
    const times = await page.locator("time.when").allInnerTexts();
    check(`a deadline is in ${zone} ${javaScriptEnabled ? "with" : "without"} scripts`, times.length > 0 && times.every((it) => it.endsWith(zone)), times.join());
    await plain.close();
  }
}

// ---- decide ----

await leads(approver, `a[href='/runs/${first.run}/approve']`, /approve$/);
const shown = await approver.innerText("main");
check("each value is on the page", ["EPAM", "42"].every((it) => shown.includes(it)), shown);
check("the other run that waits is named", (await approver.locator(`a[href='/runs/${second.run}/approve']`).count()) === 1);
await pictured(approver, "approve");

// One who may only read has no form, and what that person sends is refused.
{
  const other = await browser.newContext();
  const theirs = await opened(other, { expected: [403] });
  await theirs.goto(`${origin}/login`);
  await theirs.fill("#token", reader);
  await leads(theirs, "main button", (url) => url.pathname !== "/login");
  check("a token opens a session", theirs.url() === `${origin}/`, theirs.url());
  await theirs.goto(`${origin}/runs/${first.run}/approve`);
  check("a reader has no form", (await theirs.locator("form.decide").count()) === 0);
  const status = await theirs.evaluate(async () => {
    const body = new URLSearchParams({ action: "3/action-0", binding: "x", decision: "approve" });
    return (await fetch(location.href, { method: "POST", body })).status;
  });
  check("a form without the token of the session is refused", status === 403, status);
  await other.close();
}

// A form of another binding is refused on the page, and nothing is decided.
await approver.$eval("form.decide [name=binding]", (it) => { it.dataset.was = it.value; it.value = "0".repeat(64); });
await approver.click("text=Approve update_user");
await approver.waitForSelector(".notice.bad");
await painted(approver);
check("another binding does not count", (await approver.innerText(".notice.bad")).includes("It does not count"), await approver.innerText("main"));
await leads(approver, "text=Approve update_user", /did=approve/);
check("the approval is recorded", (await approver.innerText(".notice")).includes("Your approval is recorded"), await approver.innerText("main"));
check("nothing waits in the run any more", (await approver.innerText("main")).includes("Nothing waits in this run"), await approver.innerText("main"));

// ---- the page of the run sees it end ----

await page.waitForFunction(() => document.getElementById("run").hasAttribute("data-ended"));
const after = await page.evaluate(() => ({
  same: window.isTheSamePage === true, last: Number(document.getElementById("run").dataset.last),
  at: Number(document.getElementById("at").value), people: document.getElementById("people").textContent,
}));
check("the page followed the run without being loaded again", after.same && after.last > before && after.at === after.last, JSON.stringify(after));
check("the approval is on the page of the run", after.people.includes("approved"), after.people);
const ended = await reached(first.run, ["ended"]);
check("the API says that it has ended", ended.state === "ended" && ended.class === "answered", JSON.stringify(ended));

// ---- slide through time ----

await page.focus("#at");
for (let at = after.last; at > before; at -= 1) await page.keyboard.press("ArrowLeft");
const where = () => page.evaluate(() => ({
  at: Number(document.getElementById("at").value), url: location.search,
  shown: [...document.querySelectorAll("#people .pill.warn")].some((it) => it.textContent === "waits" && !it.closest("[hidden]")),
}));
const waits = await until(where, (it) => it.at === before);
check("at the event of the request the run waits", waits.shown && waits.at === before && waits.url === `?at=${before}`, JSON.stringify(waits));
await page.reload();
check("its address shows the same event", Number(await page.inputValue("#at")) === before);

// ---- the other run is denied, and both are compared ----

await approver.goto(`${origin}/runs/${second.run}/approve`);
await approver.fill("form.decide [name=text]", "Bob asked us to wait");
await leads(approver, "text=Deny", /did=deny/);
await reached(second.run, ["ended"]);
await page.goto(`${origin}/runs/${second.run}`);
await page.waitForFunction(() => document.getElementById("run").hasAttribute("data-ended"));
const people = await page.textContent("#people");
check("the reason of the denial is on the page", people.includes("Bob asked us to wait"), people);
await page.goto(`${origin}/compare`);
await page.fill("[name=a]", first.run);
await page.fill("[name=b]", second.run);
await leads(page, "main button", /compare\?a=/);
const compared = await page.innerText("main");
check("the comparison shows what differs", compared.includes("Decisions") || compared.includes("Document"), compared.slice(0, 600));
await pictured(page, "compare");
await passes("server compare", page.url(), { windows, storageState });
await passes("server run that has ended", watched, { windows, storageState });

// ---- out ----

check("no page had an error", page.troubles.length + approver.troubles.length === 0, [...page.troubles, ...approver.troubles].join("; "));
await leads(page, "text=Log out", /logout$/);
await leads(page, "main button", (url) => url.pathname !== "/logout");
check("logging out leads to the login", page.url() === `${origin}/login`, page.url());
check("the session is over", (await page.goto(`${origin}/`)).status() === 401);
await approver.goto(watched);
check("in each window", await approver.isVisible("#token"));
const audit = loopgate(["serve", "audit"]).stdout;
check("the audit log has the decisions and the logins", ["approve", "deny", "login", "logout"].every((it) => audit.includes(it)), audit);
await serving.end();
await finish();
