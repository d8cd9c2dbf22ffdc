// The slider over the events of a run, and what keeps a page of a running run up to date. Every page can be read without it.
"use strict";
(() => {
  const run = document.getElementById("run");
  if (!run) return;

  // The names of the events that a page is renewed for.
  const EVENTS = ("started call_started call_refused model_replied model_failed eager_started tool_started tool_finished " +
    "person_answered approved_by instruction stop_requested stop_withdrawn deadline_reached resumed validated " +
    "save_finished end").split(" ");

  // Milliseconds between two looks at a server that tells nothing by itself.
  const PAUSE = 2000;

  // Elements by the events at which they come or go: a step touches only those of the events in between.
  let last, turns, at;

  const read = () => {
    last = Number(run.dataset.last);
    turns = new Map();
    const add = (event, element) => {
      const list = turns.get(event);
      if (list) list.push(element);
      else turns.set(event, [element]);
    };
    for (const element of run.querySelectorAll("[data-from], [data-until]")) {
      add(Number(element.dataset.from), element);
      if (element.dataset.until !== undefined) add(Number(element.dataset.until), element);
    }
  };

  const isShown = (element, event) =>
    Number(element.dataset.from) <= event &&
    (element.dataset.until === undefined || event < Number(element.dataset.until));

  const slider = () => document.getElementById("at");

  const show = (event) => {
    const next = Math.min(Math.max(Math.round(event), 0), last);
    const [low, high] = at < next ? [at, next] : [next, at];
    for (let turn = low + 1; turn <= high; turn += 1) {
      for (const element of turns.get(turn) || []) {
        if (element.hidden === isShown(element, next)) element.hidden = !element.hidden;
      }
    }
    at = next;
    const input = slider();
    input.value = String(at);
    const now = document.querySelector("#now > span:not([hidden])");
    if (now) input.setAttribute("aria-valuetext", now.textContent);
  };

  // SVG elements are hidden by another attribute.
  const prepare = () => {
    if (!("hidden" in SVGElement.prototype)) {
      Object.defineProperty(SVGElement.prototype, "hidden", {
        get() { return this.getAttribute("display") === "none"; },
        set(hides) { if (hides) this.setAttribute("display", "none"); else this.removeAttribute("display"); },
      });
    }
    for (const element of run.querySelectorAll(".scripted")) element.hidden = false;
    document.getElementById("newest").hidden = last === at;
  };

  const remember = () => {
    if (location.protocol === "file:") return;
    const url = new URL(location.href);
    if (at === last) url.searchParams.delete("at");
    else url.searchParams.set("at", String(at));
    history.replaceState(null, "", url);
  };

  const go = (event) => {
    show(event);
    document.getElementById("newest").hidden = at === last;
    remember();
  };

  run.addEventListener("input", (event) => {
    if (event.target.id === "at") go(Number(event.target.value));
  });
  run.addEventListener("click", (event) => {
    const target = event.target.closest("[data-step], [data-at], #newest, a[href^='#']");
    if (!target) return;
    if (target.id === "newest") go(last);
    else if (target.dataset.step) go(at + Number(target.dataset.step));
    else if (target.dataset.at) {
      event.preventDefault();
      go(Number(target.dataset.at));
      slider().focus({ preventScroll: true });
    } else open(target.hash.slice(1));
  });

  // What a link leads to is opened and, if it comes later, waited for.
  const open = (id) => {
    const element = id && document.getElementById(id);
    if (!element) return;
    for (let it = element; it && it !== run; it = it.parentElement) {
      if (it.dataset.from !== undefined && !isShown(it, at)) go(Number(it.dataset.from));
      if (it.tagName === "DETAILS") it.open = true;
    }
    // What was opened, and the parts on the way that had no size yet, move the place after the browser went to it.
    const settle = (frames) => requestAnimationFrame(() => {
      element.scrollIntoView({ block: "nearest" });
      if (frames > 1) settle(frames - 1);
    });
    settle(3);
  };
  window.addEventListener("hashchange", () => open(location.hash.slice(1)));
  run.addEventListener("submit", (event) => {
    if (event.target.id === "slider") event.preventDefault();
  });

  // The name of an element from one page of a run to the next one.
  const nameOf = (details) =>
    details.id || `${details.closest("section")?.id}/${details.dataset.from}/${details.firstElementChild.textContent}`;
  const opened = () => new Set([...run.querySelectorAll("details[open]")].map(nameOf));

  // The page as it is now, in place of the one before: scroll, focus, what is open and the slider stay.
  const renew = async () => {
    const url = new URL(location.href);
    url.searchParams.delete("at");
    const response = await fetch(url, { headers: { accept: "text/html" } });
    if (!response.ok || response.redirected) return false;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.getElementById("run");
    if (!fresh) return false;
    const follows = at === last;
    const before = { at, names: opened(), focus: document.activeElement?.id, y: scrollY };
    // What is being written stays while it is written.
    const written = document.getElementById("live");
    if (written) fresh.querySelector("#live")?.replaceWith(written);
    run.replaceChildren(...fresh.children);
    for (const name of ["data-last", "data-ended"]) {
      if (fresh.hasAttribute(name)) run.setAttribute(name, fresh.getAttribute(name));
    }
    read();
    at = last;
    prepare();
    wind();
    for (const it of run.querySelectorAll("details")) if (before.names.has(nameOf(it))) it.open = true;
    if (!follows) show(before.at);
    document.dispatchEvent(new CustomEvent("renewed", { detail: page }));
    if (before.focus) document.getElementById(before.focus)?.focus({ preventScroll: true });
    scrollTo(scrollX, before.y);
    return true;
  };

  // ---- the words of a reply while a model writes them ----

  // What is not seen is spelt, as on the rest of the page. Joiners stay: scripts and emoji need them.
  const UNSEEN = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029\ufe00-\ufe0d\u{e0100}-\u{e01ef}]/gu;
  const spelt = (text) =>
    text.replace(UNSEEN, (it) => `[U+${it.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
  // Characters that are shown at most, and milliseconds between two additions: one by one, words would be read out one by one.
  const MAX_WORDS = 200000;
  const PACE = 400;

  const words = { call: "", due: "", count: 0, timer: 0, isOver: false };
  const clear = () => {
    clearTimeout(words.timer);
    Object.assign(words, { call: "", due: "", count: 0, timer: 0, isOver: false });
    const live = document.getElementById("live");
    if (!live) return;
    live.hidden = true;
    live.lastElementChild.textContent = "";
  };
  const write = () => {
    words.timer = 0;
    const live = document.getElementById("live");
    if (!live) return;
    live.hidden = false;
    live.lastElementChild.append(words.due);
    words.due = "";
  };
  const received = (call, text) => {
    if (call !== words.call) { clear(); words.call = call; }
    if (!call || words.count > MAX_WORDS) return;
    words.count += text.length;
    words.due += words.count > MAX_WORDS ? " …" : spelt(text);
    words.timer ||= setTimeout(write, PACE);
  };

  // ---- the clock of a run under way ----

  const inWords = (ms) => {
    const s = Math.floor(ms / 1000);
    if (s < 60) return `${s} s`;
    return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  };
  // When the clock began, on that of the browser.
  let clock;
  const wind = () => {
    const shown = document.getElementById("time");
    clock = shown.dataset.clock === undefined ? undefined : performance.now() - Number(shown.dataset.clock);
    if (clock !== undefined) shown.lastElementChild.dataset.then = shown.lastElementChild.textContent;
  };
  const tick = () => {
    if (clock === undefined) return;
    const newest = document.getElementById("time").lastElementChild;
    newest.textContent = at === last ? inWords(performance.now() - clock) : newest.dataset.then;
  };

  const follow = () => {
    if (!location.protocol.startsWith("http") || run.hasAttribute("data-ended")) return;
    const address = run.dataset.events;
    const source = address ? new EventSource(`${address}?after=${last}`) : null;
    let due = false;
    let busy = false;
    const refresh = async () => {
      if (busy) { due = true; return; }
      busy = true;
      due = false;
      await renew().catch(() => false);
      busy = false;
      if (words.isOver) clear();
      if (run.hasAttribute("data-ended")) source?.close();
      else if (due) refresh();
    };
    let timer = 0;
    const soon = (event) => {
      if (event.lastEventId && Number(event.lastEventId) <= last) return;
      clearTimeout(timer);
      timer = setTimeout(refresh, 150);
    };
    for (const name of EVENTS) source?.addEventListener(name, soon);
    source?.addEventListener("text", (event) => {
      const { call, attempt, text } = JSON.parse(event.data);
      // What else models are asked is not for the document.
      if (/\/(main|repair|final)/.test(call)) received(`${call} ${attempt}`, text);
    });
    source?.addEventListener("lost", () => received(words.call, " … "));
    // The page with the document of the pass takes the place of its words.
    for (const name of ["model_replied", "model_failed"]) source?.addEventListener(name, () => { words.isOver = true; });
    setInterval(tick, 1000);
    // A server without this stream is asked now and then.
    const ask = async () => {
      if (document.visibilityState === "visible") await refresh();
      if (!run.hasAttribute("data-ended")) setTimeout(ask, PAUSE);
    };
    if (!source) setTimeout(ask, PAUSE);
  };

  read();
  at = Number(slider().value);
  prepare();
  show(at);
  wind();
  if (location.hash) open(location.hash.slice(1));
  follow();
})();

// What can be done with a run changes with the run. What a person is writing stays.
(() => {
  const run = document.getElementById("run");
  if (!run) return;

  // The address is that of the page, also where the answer to a form has its own.
  if (location.protocol.startsWith("http")) {
    const url = new URL(location.href);
    url.searchParams.delete("did");
    url.pathname = url.pathname.split("/").slice(0, 3).join("/");
    history.replaceState(null, "", url);
  }
  document.addEventListener("renewed", ({ detail: page }) => {
    for (const id of ["waits", "acts"]) {
      const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
      if (old && fresh && old.dataset.state !== fresh.dataset.state) old.replaceWith(fresh);
    }
  });
  // A fork begins at the event that is shown.
  document.addEventListener("toggle", ({ target }) => {
    if (target.id !== "act-fork" || !target.open) return;
    const [entry, shown] = [document.getElementById("fork-entry"), document.getElementById("at")];
    if (Number(shown.value) < Number(run.dataset.last)) entry.value = shown.value;
  }, true);
  run.addEventListener("click", async ({ target }) => {
    const link = target.closest("a.self");
    if (!link || !navigator.clipboard) return;
    await navigator.clipboard.writeText(link.href).catch(() => {});
    link.dataset.copied = "";
    setTimeout(() => delete link.dataset.copied, 2000);
  });
})();

// On a page that decides, keys lead to what decides. They decide nothing themselves.
(() => {
  const forms = [...document.querySelectorAll("form.decide")];
  if (forms.length === 0) return;
  const places = { a: ".primary", d: "input[type=text]" };
  for (const hint of document.querySelectorAll(".keys")) hint.hidden = false;
  document.addEventListener("keydown", (event) => {
    const place = places[event.key];
    const { target } = event;
    if (!place || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (target.closest("input, textarea, select")) return;
    const own = target.closest("section")?.querySelector("form.decide");
    const form = own ?? forms.find((it) => it.getBoundingClientRect().bottom > 0) ?? forms[0];
    event.preventDefault();
    form.querySelector(place).focus();
  });
})();

// Times in the zone of the reader. Without scripts they are in UTC.
(() => {
  const shown = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
  });
  for (const it of document.querySelectorAll("time.when")) {
    it.title = it.textContent;
    it.textContent = shown.format(new Date(it.dateTime));
  }
})();

// The list of runs, which is renewed where it lies: rows that are the same stay, with focus, selection and what is checked.
(() => {
  const live = document.getElementById("follow");
  if (!live || !location.protocol.startsWith("http")) return;
  // Milliseconds between two looks.
  const PAUSE = 4000;
  live.parentElement.hidden = false;

  const isUsed = (element) =>
    element.contains(document.activeElement) ||
    (!getSelection().isCollapsed && getSelection().containsNode(element, true));
  const put = (old, fresh) => {
    if (!old.isEqualNode(fresh) && !isUsed(old)) old.replaceWith(fresh);
  };

  const putRows = (body, fresh) => {
    const wanted = new Set([...fresh.rows].map((row) => row.dataset.run));
    for (const row of [...body.rows]) {
      const isKept = wanted.has(row.dataset.run) || row.querySelector("input:checked") || isUsed(row);
      if (!isKept) row.remove();
    }
    const known = new Map([...body.rows].map((row) => [row.dataset.run, row]));
    let next = body.rows[0] ?? null;
    for (const row of [...fresh.rows]) {
      const old = known.get(row.dataset.run);
      if (!old) body.insertBefore(row, next);
      else {
        [...old.cells].forEach((cell, at) => put(cell, row.cells[at]));
        if (old === next) next = old.nextElementSibling;
        else if (!isUsed(old)) body.insertBefore(old, next);
      }
    }
  };

  let tag = "";
  const renew = async () => {
    const headers = tag ? { accept: "text/html", "if-none-match": tag } : { accept: "text/html" };
    const response = await fetch(location.href, { headers });
    if (!response.ok || response.redirected) return;
    tag = response.headers.get("etag") ?? "";
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(old.id);
      if (!fresh) continue;
      const [body, rows] = [old, fresh].map((it) => it.querySelector("table.list > tbody"));
      if (!body || !rows) { put(old, fresh); continue; }
      putRows(body, rows);
      put(old.querySelector(".pager"), fresh.querySelector(".pager"));
    }
  };

  const look = async () => {
    if (live.checked && document.visibilityState === "visible") await renew().catch(() => {});
    setTimeout(look, PAUSE);
  };
  setTimeout(look, PAUSE);
})();
