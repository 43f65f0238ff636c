"use strict";
// The live parts of the pages. Everything works without this file; nothing here makes markup from data.

// A story: step through its proof, or point at a step, and see the sentences it rests on.
for (const story of document.querySelectorAll("[data-story]")) {
  const steps = [...story.querySelectorAll(".proof-steps > li")];
  const sentences = [...story.querySelectorAll("[data-sentence]")];
  const stepper = story.querySelector(".stepper");
  if (!stepper || !steps.length) continue;
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
}

// Buttons that copy the text of an element.
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const label = button.textContent;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
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
