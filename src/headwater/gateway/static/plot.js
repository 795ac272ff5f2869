/** A tile: a name, the number now, and its last minute as a small plot. */

const POINTS = 60;
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [100, 32];

export class Tile {
  #values = [];

  /** `hue` is a CSS colour; `least` is the smallest top of the plot, so that silence is not drawn as a storm. */
  constructor(parent, { name, unit, hue, least = 1, write = String }) {
    this.least = least;
    this.unit = unit;
    this.write = write;
    this.element = document.createElement("div");
    this.element.className = "tile";
    this.element.style.setProperty("--hue", hue);
    this.element.innerHTML = `
      <h3><span></span><small></small></h3>
      <output></output>
      <svg class="plot" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true"></svg>`;
    this.element.querySelector("h3 span").textContent = name;
    parent.append(this.element);
    this.#draw();
  }

  push(value) {
    this.#values = [...this.#values, Number.isFinite(value) ? value : null].slice(-POINTS);
    this.#draw();
  }

  #draw() {
    const now = this.#values.at(-1) ?? null;
    const top = Math.max(this.least, ...this.#values.map((value) => value ?? 0)) * 1.08;
    this.#write(now, Math.max(...this.#values.map((value) => value ?? 0)));
    const points = this.#values.map((value, at) => [
      WIDTH - (this.#values.length - 1 - at) * (WIDTH / (POINTS - 1)),
      HEIGHT - ((value ?? 0) / top) * HEIGHT,
    ]);
    this.element.querySelector("svg").replaceChildren(...shapes(points));
  }

  #write(now, peak) {
    const output = this.element.querySelector("output");
    output.textContent = now === null ? "–" : this.write(now);
    output.insertAdjacentHTML("beforeend", "<small></small>");
    output.lastElementChild.textContent = this.unit;
    this.element.querySelector("h3 small").textContent = peak > 0 ? `peak ${this.write(peak)}` : "";
  }
}

function shapes(points) {
  const base = shape("path", "base", `M0 ${HEIGHT}H${WIDTH}`);
  if (points.length === 0) return [base];
  const line = points.map(([x, y], at) => `${at === 0 ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
  return [base, shape("path", "area", `${line}V${HEIGHT}H${points[0][0].toFixed(2)}Z`), shape("path", "line", line)];
}

function shape(tag, kind, d) {
  const element = document.createElementNS(SVG, tag);
  element.setAttribute("class", kind);
  element.setAttribute("d", d);
  return element;
}
