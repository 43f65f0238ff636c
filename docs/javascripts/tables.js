// Tables on a phone: a table that does not fit becomes one card per row, each value with the name of its column.
// The long tables of full records, and tables of short values, stay tables that scroll.

// What scrolls sideways can be reached by keyboard.
function reachable(box) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
}

document.addEventListener("DOMContentLoaded", () => {
  const record = /-record\/?(index\.html)?$/.test(location.pathname)
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim())
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, index) => { cell.dataset.label = heads[index] || "" })
    }
    const claims = table.closest(".claims") !== null
    const fits = table.scrollWidth <= table.closest("article").clientWidth
    const short = [...table.querySelectorAll("tbody td")].every((cell) => cell.textContent.length < 20)
    if (!short && (claims || (!record && !fits && heads.length > 2))) table.parentElement.classList.add("cards")
  }
  // Figures of several panels (stylesheets/tables.css).
  for (const figure of document.querySelectorAll('.md-typeset img[src$=".svg"], .md-typeset img[src$="#only-wide"]')) {
    const mark = () => {
      figure.classList.toggle("wide", figure.naturalWidth > 1.8 * figure.naturalHeight)
      reachable(figure.parentElement)
    }
    if (figure.complete) mark()
    figure.addEventListener("load", mark)
  }
  document.querySelectorAll(".md-typeset__scrollwrap").forEach(reachable)
  // Long names in tables may break after a slash or an underscore, and nowhere else.
  for (const code of document.querySelectorAll(".md-typeset td code")) {
    if (code.childElementCount > 0 || code.textContent.length < 20) continue
    const parts = code.textContent.split(/(?<=[/_])(?=\w)/)
    code.replaceChildren(...parts.flatMap((part, n) => n ? [document.createElement("wbr"), part] : [part]))
  }
})
