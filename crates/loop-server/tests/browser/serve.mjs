// A server with its engine behind its doors, as people use it: submit over the API, watch the run, approve on the page, see
// it end, slide through time, compare, log out. `cargo xtask browser` runs it after pages.mjs.

import { appendFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
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

// A model that writes a piece of its reply whenever the test lets it.
const calls = [];
const model = createServer((request, response) => {
  request.resume();
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (choice) => response.write(`data: ${JSON.stringify({ id: "m", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, finish_reason: null, delta: {}, ...choice }] })}\n\n`);
  calls.push({ writes: (content) => send({ delta: { content } }), ends: () => { send({ finish_reason: "stop" }); response.end("data: [DONE]\n\n"); } });
});
await new Promise((done) => model.listen(0, "127.0.0.1", done));
const slow = join(state, "slow");
mkdirSync(slow);
writeFileSync(join(slow, "loopgate.toml"), `version = 1\nname = "slow"\ngoal = "Answer."\n[protocol]\ntype = "conversation"\n[limits]\ncost_usd = "none"\n
[models.base]\nprovider = "compatible"\nmodel = "m"\nbase_url = "http://127.0.0.1:${model.address().port}/v1"\n`);

const opens = join(state, "login");
const serving = await started(["serve", domain, slow, "--listen", "127.0.0.1:0", "--tokens", tokens, "--login-file", opens], /open: +in /);
const login = readFileSync(opens, "utf8").trim();
const origin = new URL(login).origin;

const asked = async (path, { bearer = program, ...init } = {}) => {
  const response = await fetch(origin + path, { ...init, headers: { authorization: `Bearer ${bearer}`, ...init.headers } });
  return { status: response.status, body: await response.json() };
};
// Two submissions of the same item: one is approved, one is denied, so that there is something to compare.
const submitted = async (key, item, domain = "crm") => {
  const headers = { "content-type": "application/json", "idempotency-key": key, prefer: "wait=30" };
  const { status, body } = await asked("/v1/runs", { method: "POST", headers, body: JSON.stringify({ item, domain }) });
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
// The keys lead to what decides, and decide nothing.
await approver.locator("h1").click();
await approver.keyboard.press("d");
check("`d` leads to the reason", await approver.evaluate(() => document.activeElement.name === "text"));
await approver.keyboard.type("a");
check("what is written there is no key", (await approver.inputValue("form.decide [name=text]")) === "a");
await approver.fill("form.decide [name=text]", "");
await approver.locator("h1").click();
await approver.keyboard.press("a");
check("`a` leads to the approval", (await approver.evaluate(() => document.activeElement.textContent)).startsWith("Approve"));
check("a key alone decides nothing", approver.url().endsWith("/approve"), approver.url());
await approver.keyboard.press("Enter");
await approver.waitForURL((url) => url.pathname === `/runs/${first.run}`);
await painted(approver);
check("the approval is recorded, on the page of the run", (await approver.innerText(".notice")).includes("Your approval is recorded"), await approver.innerText("main"));
await approver.waitForFunction(() => document.getElementById("run").hasAttribute("data-ended"));
check("the run continued in view, and nothing waits any more", (await approver.locator("#waits a").count()) === 0);

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
// Enter in the field of the reason denies, and does not approve.
await approver.press("form.decide [name=text]", "Enter");
await approver.waitForURL((url) => url.pathname === `/runs/${second.run}`);
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

// ---- act: as the submitter, an admin and a reader; with scripts and without ----

const asRole = async (bearer, options = {}) => {
  const context = await browser.newContext(options);
  const theirs = await opened(context, { expected: [403, 404, 409] });
  await theirs.goto(`${origin}/login`);
  await theirs.fill("#token", bearer);
  await leads(theirs, "main button", (url) => url.pathname !== "/login");
  return theirs;
};
const third = await submitted("three", "search_user Bob, get_user_by_id 42, update_user 42 Acme");
const owner = await asRole(program);
const looks = await asRole(reader);
await looks.goto(`${origin}/runs/${third.run}`);
check("a reader has the files alone", (await looks.locator(".acts details").count()) === 1 && await looks.isVisible("#act-files"));
const forged = await looks.evaluate(async (run) => {
  const send = (act) => fetch(`/runs/${run}/${act}`, { method: "POST", body: new URLSearchParams({ mode: "now" }) });
  return Promise.all(["stop", "instructions", "resume", "fork", "retry"].map(async (act) => (await send(act)).status));
}, third.run);
check("forms without the token of the session are refused", forged.every((status) => status === 403), forged.join());
await owner.goto(`${origin}/runs/${third.run}`);
check("the owner sees what waits, and cannot decide it", (await owner.innerText("#waits a")) === "See what waits");
const stays = await owner.evaluate(() => { scrollTo(0, 2000); return document.querySelector("#waits").getBoundingClientRect().top; });
check("the way to what waits stays in view", stays >= 0 && stays < 60, stays);
await owner.evaluate(() => scrollTo(0, 0));
await owner.click("#act-tell summary");
await owner.fill("#tell-text", "Be brief");
await owner.click("#act-tell button");
await owner.waitForSelector(".notice");
await painted(owner);
check("the instruction is recorded", (await owner.innerText(".notice")).includes("Your instruction is recorded"), await owner.innerText("main"));
check("its name is not in the address", !owner.url().includes("did="), owner.url());
await owner.click("#act-files summary");
for (const [name, ending] of [["document.md", "md"], ["page.html", "html"]]) {
  const [download] = await Promise.all([owner.waitForEvent("download"), owner.click(`#act-files a[href$='${name}']`)]);
  check(`${name} is saved under a name of its run`, download.suggestedFilename().endsWith(`${third.run.slice(-8)}.${ending}`), download.suggestedFilename());
}
await passes("server run with forms", `${origin}/runs/${third.run}`, { windows, storageState: await owner.context().storageState() });

// Without scripts: stop, and fork at an event.
const plain = await asRole(program, { javaScriptEnabled: false });
await plain.goto(`${origin}/runs/${third.run}`);
await plain.click("#act-stop summary");
await plain.click("#act-stop button[value=now]");
await plain.waitForURL(/did=stop/);
check("without scripts a run is stopped", (await plain.innerText(".notice")).includes("The stop is requested"), await plain.innerText("main"));
await reached(third.run, ["ended"]);
await plain.goto(`${origin}/runs/${third.run}?at=3`);
await plain.click("#act-fork summary");
check("a fork begins at the event that is shown", (await plain.inputValue("#fork-entry")) === "3");
await plain.click("#act-fork button");
await plain.waitForURL(/did=fork/);
check("without scripts a run is forked", (await plain.innerText(".notice")).includes("This is the fork"), await plain.innerText("main"));
check("the fork names its run", (await plain.locator(`main a[href='/runs/${third.run}']`).count()) === 1);

// With scripts the slider says where a fork begins, and what cannot be is said on the page.
await owner.goto(`${origin}/runs/${third.run}`);
await owner.focus("#at");
await owner.keyboard.press("ArrowLeft");
await owner.click("#act-fork summary");
const shownAt = await owner.inputValue("#at");
// The browser says after the click that the form is open.
const begins = await until(() => owner.inputValue("#fork-entry"), (it) => it === shownAt);
check("a fork begins at the event of the slider", begins === shownAt, `${begins}, not ${shownAt}`);
await owner.fill("#fork-entry", await owner.getAttribute("#run", "data-last"));
await owner.click("#act-fork button");
await owner.waitForSelector(".notice.bad");
check("its address is that of the run", new URL(owner.url()).pathname === `/runs/${third.run}`, owner.url());
check("what cannot be forked says so", (await owner.innerText(".notice.bad")).includes("cannot be forked after entry"), await owner.innerText("main"));
await owner.context().grantPermissions(["clipboard-read", "clipboard-write"]);
await owner.goto(`${origin}/runs/${third.run}`);
await owner.locator("#gate .self").click();
check("a heading copies its link", (await until(() => owner.evaluate(() => navigator.clipboard.readText()), (it) => it !== "")) === `${origin}/runs/${third.run}#gate`);
check("no page of a role had an error", owner.troubles.length + looks.troubles.length === 0, [...owner.troubles, ...looks.troubles].join("; "));
// ---- the words of a model while it writes them, and the clock ----

{
  const headers = { "content-type": "application/json" };
  const { body } = await asked("/v1/runs", { method: "POST", headers, body: JSON.stringify({ item: "Tell me.", domain: "slow" }) });
  const call = await until(async () => calls[0], (it) => it !== undefined);
  const writing = await opened(session);
  await writing.goto(`${origin}/runs/${body.run}`);
  const time = async () => Number.parseFloat(await writing.innerText("#time"));
  const then = await time();
  const later = await until(time, (it) => it >= then + 2);
  check("the clock of a run under way runs", later >= then + 2, `${then} ${later}`);
  check("nothing is shown before there are words", !(await writing.isVisible("#live")));
  // The page reads the events when its clock runs; what was written before is not sent again.
  const live = () => writing.evaluate(() => document.querySelector("#live pre")?.textContent);
  call.writes("It is <b>slow</b>");
  const first = await until(live, (it) => it === "It is <b>slow</b>");
  check("words are shown as they come, and are text", first === "It is <b>slow</b>", first);
  call.writes(" and \u202e written.");
  const all = await until(live, (it) => it.endsWith("written."));
  check("what is not seen is spelt", all === "It is <b>slow</b> and [U+202E] written.", all);
  const log = await writing.$eval("#live pre", (it) => [it.getAttribute("role"), it.getAttribute("aria-live"), getComputedStyle(it).direction].join());
  check("they are read out politely", log === "log,polite,ltr", log);
  // axe judges the page with the words on it.
  await writing.evaluate(() => { window.isTheSamePage = true; });
  await passes("server run that writes", writing.url(), { windows, storageState });
  call.ends();
  await writing.waitForFunction(() => document.getElementById("run").hasAttribute("data-ended"));
  const after = await writing.evaluate(() => ({ same: window.isTheSamePage, live: document.getElementById("live"), text: document.querySelector("#document .document").textContent }));
  check("the document takes their place", after.same && after.live === null && after.text.includes("and [U+202E] written."), JSON.stringify(after));
  const stopped = await writing.innerText("#time");
  await new Promise((done) => setTimeout(done, 2_500));
  check("the clock stops with the run", (await writing.innerText("#time")) === stopped, stopped);
  check("a page that follows a reply has no error", writing.troubles.length === 0, writing.troubles.join("; "));
  await writing.close();
}
// ---- begin a run on the pages, and begin it again ----

await page.goto(`${origin}/domains`);
await leads(page, "main a[href='/domains/crm']", /domains\/crm$/);
const about = await page.innerText("main");
check("a domain says what its tools may do", ["update_user", "write_idempotent", "a person can be asked"].every((it) => about.includes(it)), about);
await leads(page, "text=Begin a run", /new\?domain=crm$/);
check("the form says what the run may cost", (await page.innerText("form.decide")).includes("A run costs"), await page.innerText("main"));
// What is wrong is said at its field.
{
  const wrong = await opened(session, { expected: [422] });
  await wrong.goto(`${origin}/new?domain=crm`);
  await wrong.fill("[name='item.title']", "Bob");
  await wrong.click("text=Begin the run");
  await wrong.waitForSelector(".error");
  check("what is missing is said at its field", (await wrong.getAttribute("[name='item.text']", "aria-invalid")) === "true", await wrong.innerText("main"));
  check("what was typed stays", (await wrong.inputValue("[name='item.title']")) === "Bob");
  await painted(wrong);
  await wrong.close();
}
for (const [name, at] of Object.entries({ domains: "/domains", domain: "/domains/crm", new: "/new?domain=crm" })) {
  await passes(`server ${name}`, origin + at, { windows, storageState });
}
const counted = (await asked("/v1/runs")).body.runs.length;
await page.fill("[name='item.text']", "Who is Bob?");
// A double click is one run.
await page.dblclick("text=Begin the run");
await page.waitForURL(/runs\//);
const begun = new URL(page.url()).pathname.split("/").pop();
await reached(begun, ["ended"]);
await page.goto(`${origin}/runs/${begun}`);
await leads(page, "text=Run again", /new\?from=/);
check("the form has the item of the run", (await page.inputValue("[name='item.text']")) === "Who is Bob?");
await page.setInputFiles("#file", { name: "Q-9.json", mimeType: "application/json", buffer: Buffer.from('{"title": "Who is Ann?"}') });
await leads(page, "text=Begin the run", /runs\//);
check("a file takes the place of the fields", (await page.innerText("h1")).includes("Q-9: Who is Ann?"), await page.innerText("h1"));
const listed = (await asked("/v1/runs")).body.runs.length;
check("a double click began one run", listed === counted + 2, listed);
// ---- label the run, and make a case of it: by keyboard, and without scripts ----

{
  await page.goto(watched);
  await page.focus("#label summary");
  await page.keyboard.press("Enter");
  await page.focus("#label-note");
  await page.keyboard.type("<b>it kept to the item");
  await page.keyboard.press("Tab");
  await Promise.all([page.waitForURL(/#label$/), page.keyboard.press("Enter")]);
  check("the label is on the page", (await page.innerText("#label summary")).includes("good"), await page.innerText("#label"));
  const still = await browser.newContext({ javaScriptEnabled: false, storageState });
  const plain = await opened(still);
  await plain.goto(watched);
  await plain.click("#label summary");
  check("the note is text", (await plain.innerText("#label")).includes("<b>it kept to the item"), await plain.innerText("#label"));
  await leads(plain, "#label button[value=bad]", /#label$/);
  check("the last label counts", (await asked(`/v1/runs/${first.run}`)).body.label.label === "bad");
  await plain.click("#label summary");
  const [download] = await Promise.all([plain.waitForEvent("download"), plain.click("text=Make a case of this run")]);
  check("the case is a file", download.suggestedFilename() === `run-${first.run}.case.json`, download.suggestedFilename());
  const file = join(state, download.suggestedFilename());
  await download.saveAs(file);
  check("the case runs as it ran", loopgate(["eval", file]).stdout.includes("1 of 1"));
  await plain.goto(`${origin}/`);
  check("the list has the label", (await plain.innerText("main")).includes("labelled bad"));

  // ---- evals: the matrix, what failed, the difference to an earlier one ----

  loopgate(["eval", "examples/refunds", "--keep", "before <i>"]);
  loopgate(["eval", "examples/refunds", "--keep", "after"]);
  await leads(plain, "text=Evals", /evals$/);
  const list = plain.url();
  const listed = await plain.innerText("main");
  check("both evals are listed", ["before <i>", "after"].every((it) => listed.includes(it)), listed);
  await leads(plain, "main th a", /evals\/./);
  const shownEval = plain.url();
  check("the matrix has the cases", (await plain.innerText("main")).includes("shipping_lookup_repeated_failure"));
  await plain.check("#only-bad");
  check("the switch works without scripts", (await plain.locator("details.part-good:visible").count()) === 0);
  await plain.selectOption("#f-baseline", { index: 1 });
  await leads(plain, "main form button", /baseline=./);
  check("it is compared", (await plain.innerText("main")).includes("No regression against the baseline"), await plain.innerText("main"));
  const compares = plain.url();
  await still.close();
  for (const [name, at] of Object.entries({ label: `${watched}#label`, evals: list, eval: shownEval, "eval with a baseline": compares }))
    await passes(`server ${name}`, at, { windows, storageState });
}

// ---- the list is renewed where it lies; two runs of it are compared; words are searched ----

{
  await page.goto(`${origin}/`);
  await page.evaluate(() => { window.isTheSamePage = true; });
  const box = page.locator(`tr[data-run="${first.run}"] input`);
  await box.check();
  await box.focus();
  const fourth = await submitted("four", "Who is Bob?");
  await page.waitForSelector(`tr[data-run="${fourth.run}"]`);
  const seen = await page.evaluate((run) => ({
    same: window.isTheSamePage === true, checked: document.querySelector(`tr[data-run="${run}"] input`).checked,
    focus: document.activeElement.value,
  }), first.run);
  check("the list has the new run, and what was checked and focused stays", seen.same && seen.checked && seen.focus === first.run, JSON.stringify(seen));
  await page.keyboard.press("Tab");
  check("the keyboard goes on from there", await page.evaluate(() => document.activeElement !== document.body));
  await page.locator(`tr[data-run="${second.run}"] input`).check();
  await leads(page, "text=Compare the two selected", /compare\?run=/);
  check("the two that were selected are compared", (await page.innerText("main")).includes("Prompts"), (await page.innerText("main")).slice(0, 600));
  await passes("server selected", page.url(), { windows, storageState });
  await page.goto(`${origin}/`);
  await page.fill("#f-words", "EPAM");
  await page.selectOption("#f-sort", "cost");
  await leads(page, "text=Show", /words=EPAM/);
  const found = await page.$$eval("tr[data-run]", (rows) => rows.map((row) => row.dataset.run));
  check("the search finds the runs with the word", found.includes(first.run) && !found.includes(fourth.run), found.join());
  await passes("server search", page.url(), { windows, storageState });
}

// ---- out ----

check("no page had an error", page.troubles.length + approver.troubles.length === 0, [...page.troubles, ...approver.troubles].join("; "));
await leads(page, "text=Log out", /logout$/);
await leads(page, "main button", (url) => url.pathname !== "/logout");
check("logging out leads to the login", page.url() === `${origin}/login`, page.url());
check("the session is over", (await page.goto(`${origin}/`)).status() === 401);
await approver.goto(watched);
check("in each window", await approver.isVisible("#token"));
const audit = loopgate(["serve", "audit"]).stdout;
check("the audit log has the decisions and the logins", ["approve", "deny", "instruct", "stop", "fork", "label", "login", "logout"].every((it) => audit.includes(it)), audit);
await serving.end();
model.close();
await finish();
