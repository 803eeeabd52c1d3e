// Runs before the first paint, so that a page chosen dark never flashes white.
"use strict";
try {
  const chosen = localStorage.getItem("irene.theme");
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
} catch {
  // A browser that forbids storage follows the system.
}
