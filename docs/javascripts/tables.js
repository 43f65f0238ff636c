// Tables on a phone: a table that does not fit becomes one card per row, each value with the name of its column.
// The long tables of full records stay tables that scroll.
document.addEventListener("DOMContentLoaded", () => {
  const record = /-record\/?(index\.html)?$/.test(location.pathname)
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim())
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, index) => { cell.dataset.label = heads[index] || "" })
    }
    const claims = table.closest(".claims") !== null
    const fits = table.scrollWidth <= table.closest("article").clientWidth
    if (claims || (!record && !fits && heads.length > 2)) table.parentElement.classList.add("cards")
  }
  // Long names in tables may break after a slash or an underscore, and nowhere else.
  for (const code of document.querySelectorAll(".md-typeset td code")) {
    if (code.childElementCount > 0 || code.textContent.length < 20) continue
    const parts = code.textContent.split(/(?<=[/_])(?=\w)/)
    code.replaceChildren(...parts.flatMap((part, n) => n ? [document.createElement("wbr"), part] : [part]))
  }
})
