// Answers the pointer: the values of every line at the nearest measured point.
for (const chart of document.querySelectorAll("svg[data-plane]")) {
  const plane = JSON.parse(chart.dataset.plane);
  const readout = chart.parentElement.querySelector(".readout");
  const box = chart.viewBox.baseVal;
  const [left, right, top, bottom] = [50, box.width - 12, 10, box.height - 38];
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", top);
  cursor.setAttribute("y2", bottom);
  chart.append(cursor);

  const nearest = (xs, x) => xs.reduce((best, value, at) => (Math.abs(value - x) < Math.abs(xs[best] - x) ? at : best), 0);

  chart.addEventListener("pointermove", (event) => {
    const place = ((event.clientX - chart.getBoundingClientRect().left) / chart.clientWidth) * box.width;
    const share = Math.min(1, Math.max(0, (place - left) / (right - left)));
    const x = plane.x[0] + share * (plane.x[1] - plane.x[0]);
    const at = left + share * (right - left);
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
    cursor.style.visibility = "visible";
    const seen = plane.series.map((line) => {
      const point = nearest(line.x, x);
      return `${line.label} ${line.y[point].toPrecision(4)} at ${line.x[point].toPrecision(4)}`;
    });
    readout.textContent = seen.slice(0, 4).join(" · ");
  });
  chart.addEventListener("pointerleave", () => {
    cursor.style.visibility = "hidden";
    readout.textContent = "";
  });
}
