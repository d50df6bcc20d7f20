// Diagrams in the colours of the page, light or dark.
const chosen = document.body.dataset.theme;
const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
mermaid.initialize({ startOnLoad: true, deterministicIds: true, theme: dark ? "dark" : "neutral" });
