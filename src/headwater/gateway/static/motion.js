/**
 * How rows move: they glide from where they were to where they are (FLIP), slide in, fade out.
 * Reads and writes positions, never content.
 */

const GLIDE = { duration: 320, easing: "cubic-bezier(0.22, 1, 0.36, 1)" };
const ARRIVE = { duration: 360, easing: "cubic-bezier(0.22, 1, 0.36, 1)" };
const LEAVE = { duration: 420, easing: "ease-out", fill: "forwards" };
const MOVING_MAX = 60; // more at once is not motion but noise
const GHOSTS_MAX = 20;

const reduced = matchMedia("(prefers-reduced-motion: reduce)");

/** Motion helps the eye follow a change. Too many rows at once, and it cannot anyway. */
export function isWelcome(count) {
  return !reduced.matches && !document.hidden && count <= MOVING_MAX;
}

/** Everything is where it belongs, at once, and nothing is left of what has gone. */
export function settleAll(rows, ghosts) {
  ghosts.replaceChildren();
  for (const row of rows) for (const motion of row.getAnimations({ subtree: true })) motion.cancel();
}

/** Where each element is now, running motion included; those out of sight are left out. */
export function places(elements, stage) {
  const { top, bottom } = stage.getBoundingClientRect();
  const [from, to] = [Math.max(top, 0), Math.min(bottom, innerHeight)];
  const placed = elements.map((element) => [element, element.getBoundingClientRect()]);
  return new Map(placed.filter(([, rect]) => rect.bottom > from && rect.top < to).map(([element, rect]) => [element, rect.top]));
}

/** Plays each element from its place before to its place now. */
export function glide(before) {
  const elements = [...before.keys()].filter((element) => element.isConnected);
  for (const element of elements) element.glide?.cancel();
  const shifts = elements.map((element) => before.get(element) - element.getBoundingClientRect().top);
  elements.forEach((element, at) => {
    if (Math.abs(shifts[at]) < 0.5) return;
    element.glide = element.animate([{ transform: `translateY(${shifts[at]}px)` }, { transform: "none" }], GLIDE);
  });
}

export function arrive(element) {
  element.animate([{ opacity: 0, transform: "translateY(-12px)" }, { opacity: 1, transform: "none" }], ARRIVE);
}

/** A picture of the row stays behind where it was and fades, until the next change; the row itself may go at once. */
export function leave(row, ghosts) {
  if (ghosts.childElementCount >= GHOSTS_MAX) return;
  const ghost = document.createElement("table");
  const copy = ghost.createTBody().insertRow();
  for (const cell of row.cells) {
    const twin = copy.insertCell();
    twin.textContent = cell.textContent;
    twin.className = cell.classList.contains("n") ? "n" : "";
    twin.style.width = `${cell.offsetWidth}px`;
  }
  Object.assign(ghost.style, { top: `${row.offsetTop}px`, width: `${row.offsetWidth}px`, height: `${row.offsetHeight}px` });
  ghosts.append(ghost);
  const fade = ghost.animate([{ opacity: 0.9 }, { opacity: 0, transform: "translateX(14px)" }], LEAVE);
  fade.onfinish = fade.oncancel = () => ghost.remove();
}
