/** Fuzzy search by a few letters. Pure. */

const WORD_START = 8;
const IN_A_ROW = 5;
const FOUND = 1;

/** Scores one word as a subsequence of `text`; null if it is not one. */
function wordScore(word: string, text: string, lower: string): number | null {
  const whole = lower.indexOf(word);
  if (whole >= 0) {
    const isStart = whole === 0 || isBoundary(text, whole);
    return word.length * IN_A_ROW + (isStart ? 2 * WORD_START : 0);
  }
  let score = 0;
  let at = -1;
  for (const letter of word) {
    const next = lower.indexOf(letter, at + 1);
    if (next < 0) return null;
    score += FOUND;
    if (next === at + 1) score += 1;
    if (next === 0 || isBoundary(text, next)) score += WORD_START / 2;
    at = next;
  }
  return score / 2;
}

/** Returns whether a word begins at an index: after punctuation, or at a capital after a lowercase letter. */
function isBoundary(text: string, at: number): boolean {
  const [before, here] = [text[at - 1] ?? " ", text[at] ?? " "];
  return !/[\p{L}\p{N}]/u.test(before) || (/\p{Ll}/u.test(before) && /\p{Lu}/u.test(here));
}

/** Scores how well a text matches the typed words; null if a word does not match. */
export function fuzzyScore(typed: string, text: string): number | null {
  const lower = text.toLowerCase();
  let total = 0;
  for (const word of typed.toLowerCase().split(/\s+/)) {
    if (word === "") continue;
    const score = wordScore(word, text, lower);
    if (score === null) return null;
    total += score;
  }
  return total - Math.min(1, text.length / 1000); // prefer the shorter of equal matches
}

/** Returns the matching items, best first; all items in their order if nothing was typed. */
export function fuzzyFind<T>(
  items: readonly T[],
  textOf: (item: T) => string,
  typed: string,
  most: number,
): T[] {
  if (typed.trim() === "") return items.slice(0, most);
  const scored = items.flatMap((item, place) => {
    const score = fuzzyScore(typed, textOf(item));
    return score === null ? [] : [{ item, place, score }];
  });
  scored.sort((a, b) => b.score - a.score || a.place - b.place);
  return scored.slice(0, most).map(({ item }) => item);
}
