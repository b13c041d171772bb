"use strict";

// Tables: a click on a column's name sorts by it, another one the other way; cells without a value stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const numbers = [...body.rows].some((row) => row.cells[column].dataset.v !== undefined);
      const key = (row) => {
        const cell = row.cells[column];
        return numbers ? parseFloat(cell.dataset.v ?? "NaN") : cell.textContent;
      };
      const compare = (a, b) => {
        if (!numbers) return a.localeCompare(b, undefined, { numeric: true }) * (down ? -1 : 1);
        if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
        return (a - b) * (down ? -1 : 1);
      };
      const rows = [...body.rows].sort((a, b) => compare(key(a), key(b)));
      body.append(...rows);
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}

// Histograms: the slider chooses the evaluation whose shares the bars show.
const slider = document.getElementById("evaluation");
if (slider) {
  const { steps, shares } = JSON.parse(document.getElementById("histograms").textContent);
  const output = document.querySelector("output[for=evaluation]");
  const charts = [...document.querySelectorAll("svg.histogram")];
  slider.addEventListener("input", () => {
    const step = `step ${steps[slider.value].toLocaleString("en")}`;
    output.textContent = step;
    slider.setAttribute("aria-valuetext", step);
    charts.forEach((chart, which) => {
      const top = Number(chart.dataset.top);
      const height = Number(chart.dataset.height);
      const bars = chart.querySelectorAll(".bar");
      const counts = chart.querySelectorAll(".count");
      shares[which][slider.value].forEach((share, bin) => {
        const tall = height * Math.sqrt(share);
        bars[bin].setAttribute("y", top + height - tall);
        bars[bin].setAttribute("height", tall);
        counts[bin].setAttribute("y", top + height - tall - 3);
        counts[bin].textContent = (100 * share).toFixed(share < 0.0995 ? 1 : 0);
      });
    });
  });
}
