/** gzip and base64 with browser functions. */

const MOST_BYTES = 2 ** 29;
/** Input per write. The output, at most a thousand times as much, is checked in between. */
const SLICE_BYTES = 2 ** 15;

/** Inflates one gzip member. Throws an Error if its size is not `rawBytes`. */
export async function inflate(packed: Uint8Array, rawBytes: number): Promise<Uint8Array> {
  if (!(rawBytes <= MOST_BYTES)) throw new Error("A block exceeds the size limit of the page.");
  const stream = new DecompressionStream("gzip");
  // Errors while writing also appear while reading.
  const fed = feed(stream.writable.getWriter(), packed).catch(() => undefined);
  const reader = (stream.readable as ReadableStream<Uint8Array>).getReader();
  const raw = new Uint8Array(rawBytes);
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new Error("The file is damaged or truncated. Create the report again.");
    });
    if (done) break;
    if (at + value.length > rawBytes) {
      await reader.cancel();
      throw new Error("A block is larger than its declared size.");
    }
    raw.set(value, at);
    at += value.length;
  }
  await fed;
  if (at !== rawBytes) throw new Error("A block is smaller than its declared size.");
  return raw;
}

async function feed(writer: WritableStreamDefaultWriter<BufferSource>, packed: Uint8Array): Promise<void> {
  for (let at = 0; at < packed.length; at += SLICE_BYTES) {
    await writer.ready;
    await writer.write(packed.subarray(at, at + SLICE_BYTES) as Uint8Array<ArrayBuffer>);
  }
  await writer.close();
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
