// Returns what is wrong with the page as a list of sentences. Runs as the body of a function, whose argument is the
// list of the figures that may have no data.
const mayBeEmpty = arguments[0];
const faults = [];
const fault = (text) => faults.push(text);
const root = document.scrollingElement;
// Not innerWidth, which on a telephone grows with what is too wide.
const screenWidth = root.clientWidth;
if (root.scrollWidth > screenWidth) fault(`the page is ${root.scrollWidth} wide on a screen of ${screenWidth}`);
if (document.scripts.length > 0) fault("a script");
for (const entry of performance.getEntriesByType("resource")) {
  if (!/^(file|data):/.test(entry.name)) fault(`asks the network for ${entry.name}`);
}

// The corners of a text on the screen, a little smaller than its line.
const corners = (text) => {
  const box = text.getBBox(), matrix = text.getScreenCTM();
  const dx = 1, dy = box.height * 0.15;
  return [[box.x + dx, box.y + dy], [box.x + box.width - dx, box.y + dy],
    [box.x + box.width - dx, box.y + box.height - dy], [box.x + dx, box.y + box.height - dy]]
    .map(([x, y]) => new DOMPoint(x, y).matrixTransform(matrix));
};
// Two rectangles are apart if a side of one of them separates them.
const apart = (a, b) => [a, b].some((shape) => [0, 1].some((side) => {
  const nx = shape[side + 1].y - shape[side].y, ny = shape[side].x - shape[side + 1].x;
  const on = (points) => points.map((p) => p.x * nx + p.y * ny);
  const pa = on(a), pb = on(b);
  return Math.max(...pa) <= Math.min(...pb) || Math.max(...pb) <= Math.min(...pa);
}));
const within = (inner, outer) => inner.left >= outer.left - 0.5 && inner.right <= outer.right + 0.5 &&
  inner.top >= outer.top - 0.5 && inner.bottom <= outer.bottom + 0.5;

for (const box of document.querySelectorAll(".table, .command")) {
  const fits = box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight;
  if (!fits && getComputedStyle(box).overflowX !== "auto") fault(`does not scroll: ${box.textContent.slice(0, 40)}`);
}

const figures = [...document.querySelectorAll("figure")];
if (figures.length === 0) fault("no figure");
for (const figure of figures) {
  const svg = figure.querySelector("svg");
  if (!svg) { fault(`${figure.id}: no svg`); continue; }
  const box = svg.getBoundingClientRect();
  if (box.width < 100 || box.height < 100) fault(`${figure.id}: ${box.width} x ${box.height}`);
  const empty = [...svg.querySelectorAll("text")].some((text) => text.textContent.trim() === "no data");
  if (empty && !mayBeEmpty.includes(figure.id)) fault(`${figure.id}: no data`);
  if (svg.querySelectorAll("circle, rect, polyline, polygon, line").length < 5) fault(`${figure.id}: nothing drawn`);
  const words = (text) => text.textContent.trim();
  const texts = [...svg.querySelectorAll("text")].map((text) => ({ text, at: corners(text) }));
  texts.forEach(({ text, at }, i) => {
    if (!within(text.getBoundingClientRect(), box)) fault(`${figure.id}: outside: ${words(text)}`);
    const size = parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width;
    if (!(size >= 9)) fault(`${figure.id}: ${size} px: ${words(text)}`);
    for (const other of texts.slice(i + 1)) {
      if (!apart(at, other.at)) fault(`${figure.id}: ${words(text)} overlaps ${words(other.text)}`);
    }
  });
}
return faults;
