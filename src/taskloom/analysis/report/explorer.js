"use strict";
(() => {
  const hint = () => document.querySelectorAll(".hint + .wide").forEach((box) =>
    box.previousElementSibling.classList.toggle("needed", box.scrollWidth > box.clientWidth));
  hint();
  addEventListener("resize", hint);
  document.addEventListener("toggle", hint, true); // a folded table has no width
})();
// The table of contents marks the section that is in view.
(() => {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  if (!links.size) return;
  const heads = [...document.querySelectorAll("main h2[id]")];
  const mark = () => {
    const passed = heads.filter((head) => head.getBoundingClientRect().top < innerHeight / 3);
    const here = (passed.pop() || heads[0]).id;
    links.forEach((link, id) => {
      if (link.classList.toggle("here", id === here) && link.offsetParent) {
        const box = link.closest("nav");
        if (box.scrollWidth > box.clientWidth) box.scrollLeft = link.offsetLeft - box.clientWidth / 3;
      }
    });
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
})();
(() => {
  const NARROW = matchMedia("(max-width: 46rem)").matches;
  if (NARROW) for (const one of document.querySelectorAll("details.secondary")) one.open = false;
  const PAGE = NARROW ? 3 : 10;
  const TRAITS = 4; // traits of an example that are not folded
  const BRIEF = 60; // characters of an input that fits beside its answers
  const root = document.getElementById("explorer");
  const index = document.getElementById("explorer-index");
  if (!root || !index) return;
  const cells = JSON.parse(index.textContent);
  const loaded = new Map();
  let shown = PAGE;

  const element = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };

  async function load(name) {
    if (!loaded.has(name)) {
      const bytes = Uint8Array.from(atob(document.getElementById(name).textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      loaded.set(name, JSON.parse(await new Response(stream).text()));
    }
    return loaded.get(name);
  }

  const first = JSON.parse(root.dataset.first || "{}");
  const state = { recipe: cells[0].recipe, split: cells[0].split, a: cells[0].learner, b: "", trait: "", value: "", show: "wrong", ...first };
  const unique = (values) => [...new Set(values)];
  const fits = (cell, keys) => keys.every((key) => cell[key] === state[key]);

  function choice(label, key, options) {
    const box = element("label", label);
    const select = element("select");
    for (const [value, text] of options) {
      const option = element("option", text);
      option.value = value;
      option.selected = value === state[key];
      select.append(option);
    }
    select.addEventListener("change", () => { state[key] = select.value; if (key === "trait") state.value = ""; shown = PAGE; render(); });
    box.append(select);
    return box;
  }

  function settle() {
    const recipes = unique(cells.map((c) => c.recipe));
    if (!recipes.includes(state.recipe)) state.recipe = recipes[0];
    const splits = unique(cells.filter((c) => c.recipe === state.recipe).map((c) => c.split));
    if (!splits.includes(state.split)) state.split = splits[0];
    const learners = cells.filter((c) => fits(c, ["recipe", "split"])).map((c) => c.learner);
    if (!learners.includes(state.a)) state.a = learners[0];
    if (!learners.includes(state.b) || state.b === state.a) state.b = "";
    return { recipes, splits, learners };
  }

  const same = (list) => list.map((v) => [v, v]);

  // The mean score of each item over the seeds that are on the page.
  function means(cell, data, count) {
    const runs = cell.runs.map((run) => data.runs[run]);
    return Array.from({ length: count }, (_, i) => runs.reduce((sum, run) => sum + run.scores[i], 0) / runs.length);
  }

  // Two-sided exact sign test: how often one is better on an item, were both equally good.
  function signTest(wins, losses) {
    const n = wins + losses, k = Math.min(wins, losses);
    if (!n) return 1;
    let log = -n * Math.LN2, sum = 0;
    for (let i = 0; i <= k; i++) { sum += Math.exp(log); log += Math.log(n - i) - Math.log(i + 1); }
    return Math.min(1, 2 * sum);
  }

  const fixed = (value) => value.toFixed(3);

  function answers(cell, data, i) {
    const box = element("div");
    const counts = new Map();
    for (const run of cell.runs) {
      const text = data.texts[data.runs[run].answers[i]], score = data.runs[run].scores[i];
      const key = JSON.stringify([text, score]);
      counts.set(key, (counts.get(key) || 0) + 1);
    }
    box.append(element("b", cell.learner));
    for (const [key, n] of [...counts].sort((x, y) => y[1] - x[1])) {
      const [text, score] = JSON.parse(key);
      const seeds = cell.runs.length > 1 ? `  (${n} of ${cell.runs.length} seeds)` : "";
      const partial = score > 0 && score < 1 ? `  [${score.toFixed(2)}]` : "";
      const line = element("div", (text === "" ? "(nothing)" : text) + partial + seeds, score >= 1 ? "good" : "bad");
      box.append(line);
    }
    for (const run of cell.runs) {
      const reply = ((data.replies || {})[run] || [])[i];
      if (reply) box.append(wholeReply(reply));
    }
    return box;
  }

  // A story with its question first and the sentences that prove the answer lit.
  function story(text, [places, question]) {
    // Python counts characters, JavaScript UTF-16 units.
    const letters = [...text], part = (from, to) => letters.slice(from, to).join("");
    const node = element("div", undefined, "story"), body = element("p");
    let end = 0;
    places.forEach(([from, to]) => {
      body.append(part(end, from), element("mark", part(from, to)));
      end = to;
    });
    body.append(part(end, question));
    node.append(element("p", part(question), "question"));
    if (!places.length || !NARROW) { node.append(body); return node; }
    // On a phone the lit sentences stand for the story until it is opened.
    const lit = element("p"), whole = element("details");
    for (const [from, to] of places) lit.append(element("mark", part(from, to)), " ");
    whole.append(element("summary", "whole story"), body);
    node.append(lit, whole);
    return node;
  }

  function wholeReply(reply) {
    const details = element("details");
    details.append(element("summary", "prompt and reply"));
    const parts = [["prompt", reply.prompt], ["thinking", reply.thinking], ["reply", reply.reply || "(nothing)"]];
    for (const [name, text] of parts) {
      if (text) details.append(element("b", name), element("pre", text));
    }
    details.append(element("div", reply.facts, "traits"));
    return details;
  }

  function item(data, i, chosen) {
    const lit = (data.lit || [])[i], text = data.inputs[i];
    // A short input fits beside its answers.
    const node = element("div", undefined, !lit && text.length <= BRIEF && !text.includes("\n") ? "item brief" : "item");
    node.append(element("div", `${state.split} ${data.index[i]}`, "traits"), lit ? story(text, lit) : element("pre", text));
    const row = element("div", undefined, "answers");
    const expected = element("div");
    expected.append(element("b", "expected"), element("div", data.targets[i].join(" | ")));
    row.append(expected, ...chosen.map((cell) => answers(cell, data, i)));
    const traits = Object.entries(data.traits).map(([name, column]) => [name, column.values[column.codes[i]]]).filter((t) => t[1] !== null);
    const line = (some) => element("div", some.map(([name, value]) => `${data.labels[name]}: ${value}`).join(" · "), "traits");
    node.append(row, line(traits.slice(0, TRAITS)));
    if (traits.length > TRAITS) {
      const rest = element("details");
      rest.append(element("summary", `${traits.length - TRAITS} more traits`), line(traits.slice(TRAITS)));
      node.append(rest);
    }
    return node;
  }

  async function render() {
    const known = settle();
    const cell = cells.find((c) => fits(c, ["recipe", "split"]) && c.learner === state.a);
    const other = cells.find((c) => fits(c, ["recipe", "split"]) && c.learner === state.b);
    const data = await load(cell.data);
    const names = Object.keys(data.traits);
    if (!names.includes(state.trait)) { state.trait = ""; state.value = ""; }
    const column = data.traits[state.trait];
    const controls = element("div", undefined, "controls");
    controls.append(choice("recipe", "recipe", same(known.recipes)), choice("split", "split", same(known.splits)), choice("learner", "a", same(known.learners)));
    if (known.learners.length > 1) controls.append(choice("beside", "b", [["", "nobody"], ...same(known.learners.filter((l) => l !== state.a))]));
    if (names.length) controls.append(choice("only where", "trait", [["", "anything"], ...names.map((n) => [n, data.labels[n]])]));
    if (column) {
      const values = column.values.filter((v) => v !== null);
      if (!values.includes(state.value)) state.value = values[0];
      controls.append(choice("is", "value", same(values)));
    }
    const order = [["wrong", "wrong first"], ["right", "right first"]];
    if (other) order.push(["apart", "where they differ"]);
    else if (state.show === "apart") state.show = "wrong";
    controls.append(choice("show", "show", order));

    const count = data.inputs.length, mine = means(cell, data, count), theirs = other ? means(other, data, count) : null;
    let rows = [...Array(count).keys()];
    if (column) rows = rows.filter((i) => column.values[column.codes[i]] === state.value);
    const mean = (scores) => (rows.length ? rows.reduce((sum, i) => sum + scores[i], 0) / rows.length : NaN);
    let text = `${rows.length.toLocaleString("en")} examples; ${cell.learner}: ${fixed(mean(mine))}`;
    if (cell.left) text += ` (the first ${cell.runs.length} of ${cell.runs.length + cell.left} seeds are on this page)`;
    if (data.left) text += `; ${data.left.toLocaleString("en")} more examples are not on this page`;
    if (other) {
      const wins = rows.filter((i) => mine[i] > theirs[i]).length, losses = rows.filter((i) => mine[i] < theirs[i]).length;
      const p = signTest(wins, losses);
      text += `; ${other.learner}: ${fixed(mean(theirs))}. ${cell.learner} is better on ${wins}, ${other.learner} on ${losses}; sign test over these examples, p ${p < 0.001 ? "< 0.001" : "= " + fixed(p)}`;
      const tested = (cell.paired || {})[other.learner];
      if (tested && !column) text += `. ${tested}`;
    }
    const rank = { wrong: (i) => mine[i], right: (i) => -mine[i], apart: (i) => -Math.abs(mine[i] - (theirs ? theirs[i] : 0)) }[state.show];
    if (state.show === "apart") rows = rows.filter((i) => mine[i] !== theirs[i]);
    rows.sort((i, j) => rank(i) - rank(j) || i - j);

    const list = element("div");
    for (const i of rows.slice(0, shown)) list.append(item(data, i, other ? [cell, other] : [cell]));
    const summary = element("p", text, "summary");
    summary.setAttribute("role", "status");
    root.replaceChildren(controls, summary, list);
    if (rows.length > shown) {
      const more = element("button", `${Math.min(PAGE, rows.length - shown)} more of ${(rows.length - shown).toLocaleString("en")}`, "more");
      more.type = "button";
      more.addEventListener("click", () => { shown += PAGE; render(); });
      root.append(more);
    }
  }

  root.hidden = false;
  document.getElementById("without-script").className = "replaced";
  render();
  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("button.open");
    if (!button) return;
    const wanted = JSON.parse(button.dataset.open);
    Object.assign(state, { b: "", trait: "", value: "", show: "wrong" }, wanted);
    shown = PAGE;
    render().then(() => { root.scrollIntoView({ block: "start" }); root.focus({ preventScroll: true }); });
  });
})();
