// What mdBook's pages lack for the keyboard and for screen readers.

document.getElementById("mdbook-menu-bar").setAttribute("role", "banner");
document.getElementById("mdbook-search-wrapper").setAttribute("role", "search");
document.getElementById("mdbook-searchbar").setAttribute("aria-label", "Search");

// The label that opens the table of contents cannot be focused: a button clicks it.
const label = document.getElementById("mdbook-sidebar-toggle");
const button = document.createElement("button");
button.className = "icon-button";
button.title = "Table of contents";
button.append(...label.childNodes);
button.addEventListener("click", () => label.click());
const mirror = () => button.setAttribute("aria-expanded", label.getAttribute("aria-expanded"));
new MutationObserver(mirror).observe(label, { attributes: true });
mirror();
label.style.display = "none";
label.after(button);

for (const cell of document.querySelectorAll("th:empty")) {
    cell.replaceWith(document.createElement("td"));
}

// What is wider than the window is scrolled by keyboard too.
const scrolls = new ResizeObserver((entries) => {
    for (const { target } of entries) {
        if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
        else target.removeAttribute("tabindex");
    }
});
for (const wide of document.querySelectorAll("pre code, .table-wrapper")) scrolls.observe(wide);
