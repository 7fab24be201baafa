/** gzip and base64 by what browsers bring along. */

const MOST_BYTES = 2 ** 29;

/** Inflates one gzip member and stops what grows beyond `rawBytes`. */
export async function inflate(packed: Uint8Array, rawBytes: number): Promise<Uint8Array> {
  const stream = new Blob([packed as Uint8Array<ArrayBuffer>])
    .stream()
    .pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.getReader();
  if (!(rawBytes <= MOST_BYTES)) throw new Error("A block is larger than the page takes.");
  const raw = new Uint8Array(rawBytes);
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > rawBytes) {
      await reader.cancel();
      throw new Error("A block is larger than the file says.");
    }
    raw.set(value, at);
    at += value.length;
  }
  if (at !== rawBytes) throw new Error("A block is smaller than the file says.");
  return raw;
}

interface FromBase64 {
  fromBase64?: (text: string) => Uint8Array;
}

export function base64Bytes(text: string): Uint8Array {
  const native = (Uint8Array as unknown as FromBase64).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}
