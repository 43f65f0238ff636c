"use strict";
// The live parts of the pages. Everything works without this file; nothing here makes markup from data.

// A story: step through its proof, or point at a step, and see the sentences it rests on.
const animate = (story) => {
  const steps = [...story.querySelectorAll(".proof-steps > li")];
  const sentences = [...story.querySelectorAll("[data-sentence]")];
  const stepper = story.querySelector(".stepper");
  if (!stepper || !steps.length) return;
  stepper.hidden = false;
  let reached = steps.length;

  const light = (chosen, last) => {
    const uses = new Set(chosen.flatMap((step) => step.dataset.uses.split(" ").filter(Boolean)));
    const now = new Set(last ? last.dataset.uses.split(" ").filter(Boolean) : []);
    for (const sentence of sentences) {
      sentence.classList.toggle("lit", uses.has(sentence.dataset.sentence));
      sentence.classList.toggle("now", now.has(sentence.dataset.sentence));
    }
    steps.forEach((step) => {
      step.classList.toggle("dim", !chosen.includes(step));
      step.classList.toggle("now", step === last);
    });
  };
  const show = () => light(steps.slice(0, reached), reached < steps.length ? steps[reached - 1] : null);
  stepper.addEventListener("click", (event) => {
    const step = event.target.dataset && event.target.dataset.step;
    if (!step) return;
    if (step === "all") reached = steps.length;
    else if (step === "1") reached = reached >= steps.length ? 1 : reached + 1;
    else reached = Math.max(1, reached - 1);
    show();
  });
  steps.forEach((step) => {
    step.addEventListener("mouseenter", () => light(steps, step));
    step.addEventListener("mouseleave", show);
  });
};

// A button that copies the text of an element.
const offerCopy = (button) => {
  if (!navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const label = button.textContent;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
};

// On a narrow screen the preview is a sheet that can be folded down to its buttons.
const offerFold = (button) => {
  const sheet = button.closest(".preview");
  const show = () => {
    const folded = sheet.classList.contains("folded");
    button.textContent = folded ? "Show" : "Hide";
    button.setAttribute("aria-expanded", String(!folded));
  };
  button.hidden = false;
  button.addEventListener("click", () => { sheet.classList.toggle("folded"); show(); });
  show();
};

// On a wide screen whole stories are open; on a narrow one their supporting sentences stand for them.
const unfold = (story) => { story.open = matchMedia("(min-width: 48rem)").matches; };

const enliven = (root) => {
  root.querySelectorAll(".whole-story").forEach(unfold);
  root.querySelectorAll("[data-story]").forEach(animate);
  root.querySelectorAll("[data-copy]").forEach(offerCopy);
  root.querySelectorAll("[data-fold]").forEach(offerFold);
};
enliven(document);

// Put a part of a page, as the server made it, into the place of the old one; open details stay open.
const replace = (place, text) => {
  const fresh = new DOMParser().parseFromString(text, "text/html").body;
  const open = new Set([...place.querySelectorAll("details[open]")].map((one) => one.className));
  fresh.querySelectorAll("details").forEach((one) => { if (open.has(one.className)) one.open = true; });
  place.replaceChildren(...fresh.childNodes);
  enliven(place);
};

// A part that is asked for again every few seconds, while somebody looks.
const EVERY = 3000;
for (const place of document.querySelectorAll("[data-live]")) {
  const poll = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(place.dataset.live);
        if (answer.ok) {
          const text = await answer.text();
          if (text !== place.lastText) replace(place, text);
          place.lastText = text;
        }
      } catch { /* the viewer has ended, or will be back */ }
    }
    setTimeout(poll, EVERY);
  };
  setTimeout(poll, EVERY);
}

// Sliders beside numbers. A size goes over round numbers, a range has a slider for each end.
const SIZES = [0, 10, 20, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10000, 20000, 50000, 100000, 200000, 500000];
const offerSliders = (input) => {
  const [low, high] = input.dataset.slider.split(" ").map(Number);
  const scale = {
    size: { max: SIZES.length - 1, step: 1, to: (n) => Math.max(0, SIZES.findLastIndex((one) => one <= n)), from: (place) => SIZES[place] },
    share: { max: 1, step: 0.05, to: Number, from: Number },
  }[input.dataset.slider] || { min: low, max: high, step: 1, to: Number, from: Number };
  const ends = input.dataset.control === "span" ? ["smallest", "largest"] : [""];
  const sliders = ends.map((end) => {
    const slider = document.createElement("input");
    slider.type = "range";
    Object.assign(slider, { min: scale.min || 0, max: scale.max, step: scale.step });
    slider.setAttribute("aria-label", `${input.closest(".field").querySelector("label").textContent}, slider ${end}`.trim());
    return slider;
  });
  const show = () => {
    const given = (input.value || input.placeholder).split("..");
    sliders.forEach((slider, i) => { slider.value = scale.to(Number(given[i] || given[0] || 0)); });
  };
  sliders.forEach((slider, i) => slider.addEventListener("input", () => {
    const values = sliders.map((one) => scale.from(Number(one.value)));
    if (values.length === 2 && values[0] > values[1]) { values[1 - i] = values[i]; }
    input.value = [...new Set(values)].join("..");
    if (values.length === 2) show();
  }));
  input.addEventListener("input", show);
  const names = sliders.length > 1 ? ["from", "to"] : [];
  const named = sliders.flatMap((slider, i) => (names[i] ? [Object.assign(document.createElement("small"), { textContent: names[i] }), slider] : [slider]));
  input.after(...named);
  show();
};
document.querySelectorAll("[data-slider]").forEach(offerSliders);

// What was entered, without what is empty; nothing ticked where something could be is sent as such.
const entered = (form) => {
  const kept = new URLSearchParams();
  const data = new FormData(form);
  const ticks = new Set([...form.querySelectorAll(".ticks > input[type=hidden]")].map((one) => one.name));
  for (const [name, value] of data) if (value.trim()) kept.append(name, value);
  for (const name of ticks) if (!kept.has(name)) kept.append(name, "");
  return kept;
};

const GROUP = ".member[open][data-field^='groups.']";

// The form of a recipe: check and preview it shortly after the last change.
for (const form of document.querySelectorAll("[data-preview]")) {
  const place = document.getElementById("preview");
  let timer = 0;
  let asked = 0;
  let open = form.querySelector(GROUP)?.dataset.field || "";
  const ask = async () => {
    const mine = ++asked;
    place.classList.add("waiting");
    try {
      const answer = await fetch(`${form.dataset.preview}?${entered(form)}&open=${encodeURIComponent(open)}`);
      const text = await answer.text();
      if (mine !== asked) return;
      replace(place, text);
      const problem = place.querySelector("[data-problem]");
      form.querySelectorAll("[data-field]").forEach((field) => {
        field.classList.toggle("has-problem", Boolean(problem && problem.dataset.problem === field.dataset.field));
        if (!field.classList.contains("has-problem")) return;
        for (let part = field; part; part = part.parentElement.closest("details")) if (part.localName === "details") part.open = true;
      });
    } catch { /* the viewer has ended */ }
    if (mine === asked) place.classList.remove("waiting");
  };
  const askSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 400);
  };
  form.addEventListener("input", askSoon);
  // The group that was opened last is previewed first.
  form.addEventListener("toggle", ({ target }) => {
    if (!target.matches(GROUP) || target.dataset.field === open) return;
    open = target.dataset.field;
    askSoon();
  }, true);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = entered(form);
    const button = event.submitter;
    if (button && button.name) {
      query.append(button.name, button.value);
      location.assign(`${location.pathname}?${query}`);
      return;
    }
    history.replaceState(null, "", `${location.pathname}?${query}`);
    ask();
  });
  if (!place.querySelector("pre")) ask();
}

// Keys: / to the search, arrows to the page or example before and after.
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, [tabindex]")) return;
  const search = document.querySelector("[data-search]");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
  }
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const link = rel && document.querySelector(`a[rel="${rel}"]`);
  if (link) location.assign(link.href);
});
