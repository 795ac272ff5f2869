/**
 * The frame budget: whether there is time for motion and light. Changes that follow each other too fast for the eye, or
 * frames that take too long, spend it; after a quiet moment it is there again. Never draws anything.
 */

const CHANGES_PER_S_MAX = 6; // more, and each motion would be cut off by the next
const FRAME_MS_MAX = 24; // a slower frame has no time for motion
const REST_MS = 1_000;

export class FrameBudget {
  #changes = []; // when the latest changes were drawn, in ms
  #crowdedUntil = -Infinity;
  #slowUntil = -Infinity;

  /** A change is drawn in the frame of `now`. The frame after it tells how long this one took. */
  note(now) {
    this.#changes = [...this.#changes.filter((at) => now - at < 1_000), now];
    if (this.#changes.length > CHANGES_PER_S_MAX) this.#crowdedUntil = now + REST_MS;
    requestAnimationFrame((next) => {
      if (next - now > FRAME_MS_MAX) this.#slowUntil = next + REST_MS;
    });
  }

  /** Too many changes: rows are drawn, and nothing moves or lights up. */
  isCrowded(now) {
    return now < this.#crowdedUntil;
  }

  /** Time to mark what changed, and no more. */
  isSlow(now) {
    return now < this.#slowUntil;
  }
}
