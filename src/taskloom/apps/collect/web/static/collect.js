"use strict";
// Everything works without this file but marking spans by selection; it adds keys, retries and previews.

const status = document.getElementById("status");
const texts = document.body.dataset;

function say(text, failed) {
  status.textContent = text;
  status.hidden = !text;
  status.classList.toggle("failed", Boolean(failed));
}

// Forms that must not get lost: sent by script, tried again without a connection, errors shown beside what was entered.
for (const form of document.querySelectorAll("form.retry")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, event.submitter);
  });
}

async function send(form, submitter) {
  if (form.dataset.busy) return;
  form.dataset.busy = "yes";
  const seconds = document.getElementById("seconds");
  if (seconds) seconds.value = (visible() / 1000).toFixed(1);
  const body = new URLSearchParams(new FormData(form));
  if (submitter && submitter.name) body.set(submitter.name, submitter.value);
  say(texts.saving);
  for (;;) {
    try {
      const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
      const text = await answer.text();
      const json = (answer.headers.get("content-type") || "").startsWith("application/json");
      if (!json && answer.status >= 500) throw new Error(text); // a proxy whose server is gone: as without a connection
      const reply = json ? JSON.parse(text) : { error: text };
      if (reply.next) { location.assign(reply.next); return; }
      say(reply.error || answer.statusText, true);
      break;
    } catch {
      say(texts.offline, true);
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
  delete form.dataset.busy;
}

// Time that the page was visible.
let shown = document.hidden ? 0 : performance.now();
let total = 0;
document.addEventListener("visibilitychange", () => {
  if (document.hidden) total += performance.now() - shown; else shown = performance.now();
});
function visible() { return total + (document.hidden ? 0 : performance.now() - shown); }

// What a writer typed survives a reload or a way back, until it is submitted.
for (const form of document.querySelectorAll("form.keep")) {
  const field = form.querySelector("[name=question]");
  const name = "draft " + location.pathname;
  if (!status.hidden) sessionStorage.removeItem(name); // the page says that it was saved
  if (field && !field.value) field.value = sessionStorage.getItem(name) || "";
  if (field) field.addEventListener("input", () => sessionStorage.setItem(name, field.value));
}

// Answers.
const answer = document.getElementById("answer");
const passage = document.getElementById("passage");
const spansField = document.getElementById("spans");
if (answer && passage) {
  const format = passage.dataset.format;
  // The server counts characters, the browser units of UTF-16.
  const text = passage.textContent;
  const characters = Array.from(text);
  const units = [0];
  for (const c of characters) units.push(units[units.length - 1] + c.length);
  const toCharacter = (unit) => { let low = 0, high = units.length - 1; while (low < high) { const mid = (low + high) >> 1; if (units[mid] < unit) low = mid + 1; else high = mid; } return low; };
  const words = [];
  for (const match of text.matchAll(/\S+/g)) words.push([toCharacter(match.index), toCharacter(match.index + match[0].length)]);
  let spans = [];
  let cursor = -1;
  let anchor = -1;

  const slice = (start, end) => characters.slice(start, end).join("");

  function draw() {
    const cuts = new Set([0, characters.length]);
    for (const [a, b] of spans) { cuts.add(a); cuts.add(b); }
    const pending = anchor >= 0 && cursor >= 0 ? [words[Math.min(anchor, cursor)][0], words[Math.max(anchor, cursor)][1]] : null;
    if (pending) pending.forEach((x) => cuts.add(x));
    if (cursor >= 0) words[cursor].forEach((x) => cuts.add(x));
    const order = [...cuts].sort((a, b) => a - b);
    const inside = (a, b, span) => span && span[0] <= a && b <= span[1];
    passage.replaceChildren();
    let current = null;
    for (let i = 0; i + 1 < order.length; i++) {
      const [a, b] = [order[i], order[i + 1]];
      const classes = [];
      if (spans.some((s) => inside(a, b, s))) classes.push("chosen");
      if (inside(a, b, pending)) classes.push("pending");
      if (cursor >= 0 && inside(a, b, words[cursor])) classes.push("cursor");
      if (!classes.length) { passage.append(slice(a, b)); continue; }
      const mark = document.createElement("span");
      mark.className = classes.join(" ");
      mark.textContent = slice(a, b);
      if (classes.includes("cursor")) current = mark;
      passage.append(mark);
    }
    if (current) current.scrollIntoView({ block: "nearest" });
    list();
  }

  function list() {
    if (!spansField) return;
    const place = document.getElementById("parts");
    place.replaceChildren();
    spans.forEach(([a, b], number) => {
      const item = document.createElement("li");
      item.textContent = slice(a, b);
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = "×";
      button.setAttribute("aria-label", texts.remove + " " + slice(a, b));
      button.addEventListener("click", () => { spans.splice(number, 1); draw(); });
      item.append(button);
      place.append(item);
    });
    if (!spans.length) { const item = document.createElement("li"); item.textContent = texts.nothing; place.append(item); }
    spansField.value = spans.map((s) => s.join("-")).join(",");
  }

  function add(start, end) {
    while (start < end && /\s/.test(characters[start])) start++;
    while (end > start && /\s/.test(characters[end - 1])) end--;
    if (start >= end) return;
    // Whole words: half of one is never meant.
    for (const [a, b] of words) { if (a < start && start < b) start = a; if (a < end && end < b) end = b; }
    spans = spans.filter(([a, b]) => b <= start || a >= end);
    spans.push([start, end]);
    spans.sort((x, y) => x[0] - y[0]);
    const na = answer.querySelector("[type=checkbox][value='n/a']");
    if (na) na.checked = false;
    draw();
  }

  function selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    if (!passage.contains(range.startContainer) || !passage.contains(range.endContainer)) return null;
    const before = document.createRange();
    before.selectNodeContents(passage);
    before.setEnd(range.startContainer, range.startOffset);
    const start = before.toString().length;
    return [toCharacter(start), toCharacter(start + range.toString().length)];
  }

  let lastField = answer.querySelector("#objects input");
  answer.addEventListener("focusin", (event) => { if (event.target.matches("#objects input")) lastField = event.target; });
  function take() {
    const range = selected();
    if (!range) return;
    use(range);
    getSelection().removeAllRanges();
  }
  function use(range) {
    if (format === "span") add(...range);
    else if (format === "structure" && lastField) {
      const quote = slice(...range).trim().replace(/\s+/g, " ");
      lastField.value = lastField.value ? lastField.value + " | " + quote : quote;
      lastField.focus();
    }
  }
  if (format !== "yes/no") {
    // A mouse has selected when its button is up; a finger still moves the ends, so a button takes what is selected then.
    passage.addEventListener("pointerup", (event) => { if (event.pointerType === "mouse") setTimeout(take, 0); });
    let kept = null;
    document.addEventListener("selectionchange", () => { const range = selected(); if (range) kept = range; });
    document.getElementById("take").addEventListener("click", () => { if (kept) use(kept); kept = null; getSelection().removeAllRanges(); });
  }

  passage.addEventListener("keydown", (event) => {
    if (format !== "span" || event.ctrlKey || event.metaKey || event.altKey || !words.length) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const step = event.key === "ArrowRight" ? 1 : -1;
      cursor = cursor < 0 ? 0 : Math.min(words.length - 1, Math.max(0, cursor + step));
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      cursor = Math.min(words.length - 1, Math.max(0, cursor + (event.key === "ArrowDown" ? 8 : -8)));
    } else if (event.key === " ") {
      if (cursor < 0) cursor = 0;
      if (anchor < 0) anchor = cursor;
      else { const [a, b] = [Math.min(anchor, cursor), Math.max(anchor, cursor)]; anchor = -1; add(words[a][0], words[b][1]); }
    } else if (event.key === "Escape") anchor = -1;
    else if (event.key === "Backspace") spans.pop();
    else return;
    event.preventDefault();
    draw();
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input:not([type=radio], [type=checkbox]), textarea, select");
    if (event.key === "Enter" && !event.target.matches("textarea, button, a, summary")) {
      event.preventDefault();
      answer.requestSubmit(answer.querySelector(".buttons button"));
      return;
    }
    if (typing) return;
    const choice = answer.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
    if (choice) { choice.checked = choice.type === "radio" || !choice.checked; choice.focus(); event.preventDefault(); }
  });

  if (spansField) {
    // An earlier answer is marked where it stands.
    const typed = answer.querySelector("[name=typed]");
    for (const line of typed.value.split("\n").filter(Boolean)) {
      const pattern = line.trim().split(/\s+/).map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
      const match = text.match(new RegExp(pattern));
      if (match) add(toCharacter(match.index), toCharacter(match.index + match[0].length));
    }
    if (spans.length) { typed.value = ""; typed.closest("details").open = false; }
    list();
    passage.focus({ preventScroll: true });
  } else {
    // Not a field of a structure: the key for n/a would be typed into it.
    const first = answer.querySelector("[type=radio]") || passage;
    first.focus({ preventScroll: true });
  }

  const addRow = document.getElementById("add-row");
  if (addRow) addRow.addEventListener("click", () => {
    const body = answer.querySelector("#objects tbody");
    const row = body.rows[0].cloneNode(true);
    for (const field of row.querySelectorAll("input, select")) field.value = "";
    body.append(row);
    row.querySelector("input").focus();
  });
}

// The editor of output structures previews the form of an answer.
const preview = document.getElementById("preview");
if (preview) {
  const form = preview.closest("form");
  const show = () => {
    const row = { [form.main.value.trim() || "…"]: "…" };
    form.querySelectorAll(".attribute").forEach((field, number) => {
      const values = form.querySelectorAll(".values")[number].value.split(",").map((v) => v.trim()).filter(Boolean);
      if (field.value.trim()) row[field.value.trim()] = values.join(" or ") || "…";
    });
    preview.textContent = JSON.stringify([row]);
  };
  form.addEventListener("input", show);
  show();
}

// Suggestions of a model.
const suggest = document.getElementById("suggest");
if (suggest) suggest.addEventListener("click", async () => {
  suggest.disabled = true;
  const note = document.getElementById("suggested-note");
  const form = document.querySelector("form.stack, #answer");
  const body = new URLSearchParams({ form_token: form.form_token.value, variant: suggest.dataset.variant || "" });
  try {
    const reply = await (await fetch(suggest.dataset.address, { method: "POST", body, headers: { Accept: "application/json" } })).json();
    if (reply.error) note.textContent = reply.error;
    else {
      note.textContent = note.dataset.text + " " + reply.model;
      const question = document.getElementById("question");
      const place = document.getElementById("suggestions");
      if (question) { question.value = reply.text; document.getElementById("suggested").value = reply.model; }
      else if (place) { const item = document.createElement("li"); item.textContent = reply.text; place.append(item); }
    }
  } catch { note.textContent = texts.offline; }
  suggest.disabled = false;
});

for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", async () => {
  const field = button.parentElement.querySelector("input");
  field.select();
  try { await navigator.clipboard.writeText(field.value); button.textContent = texts.copied; } catch { /* it is selected */ }
});
