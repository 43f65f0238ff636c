// Tables on a phone: a table that does not fit becomes one card per row, each value with the name of its column.
// The long tables of full records, and tables of short values, stay tables that scroll.

// What scrolls sideways can be reached by keyboard.
function reachable(box) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
}

// A long page on a phone is its headings, each of which opens: nobody scrolls through thirty screens.
const LONG = 6000
function foldSections(article) {
  for (const head of article.querySelectorAll(":scope > h2")) {
    const part = document.createElement("details"), title = document.createElement("summary")
    part.className = "part"
    head.before(part)
    part.append(title)
    title.append(head)
    while (part.nextSibling && part.nextSibling.nodeName !== "H2") part.append(part.nextSibling)
    title.querySelectorAll(".headerlink").forEach((link) => link.remove())
  }
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
    const part = target && target.closest("details.part")
    if (!part) return
    part.open = true
    target.scrollIntoView()
  }
  window.addEventListener("hashchange", open)
  open()
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
  const article = document.querySelector("article.md-typeset")
  const narrow = matchMedia("(max-width: 44.99em)").matches
  if (article && narrow && !record && article.scrollHeight > LONG) foldSections(article)
})
