/** Names come from the profiled program: they may contain anything. */

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Makes control characters and bidirectional overrides visible. */
export function plainText(text: string): string {
  return text.replace(UNSEEN, escaped);
}

const TAB = 4;

/** Makes a line of code visible: tabs lead to the next tab stop, other control characters are seen. */
export function codeText(line: string): string {
  let text = "";
  for (const part of line.split(/(\t)/)) text += part === "\t" ? " ".repeat(TAB - (text.length % TAB)) : part;
  return plainText(text);
}

/** Returns at most `length` characters; truncated texts end in an ellipsis. */
export function shortened(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, Math.max(0, length - 1))}…`;
}

/** Compiles a search: `/pattern/flags`, or a case-insensitive pattern or text. */
export function searchPattern(typed: string): RegExp | null {
  if (typed === "") return null;
  const written = /^\/(.+)\/([imsu]*)$/.exec(typed);
  try {
    if (written) return new RegExp(written[1] as string, written[2]);
    return new RegExp(typed, "i");
  } catch {
    return new RegExp(typed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
  }
}

/** FNV-1a: distributes names over shades, the same in every report. */
export function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    hash ^= text.charCodeAt(i);
    hash = Math.imul(hash, 0x01000193);
  }
  return hash >>> 0;
}
