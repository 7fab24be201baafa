// Perfetto's trace_processor in Node.js: loads a trace and prints the rows of a query.
//
// Usage: node perfetto_wasm.js ENGINE TRACE QUERY.sql
//
// ENGINE has engine_bundle.js and trace_processor.wasm, Perfetto's build for browsers. The bundle
// is written for a worker, so the few parts of a worker that it uses are defined here. Requests and
// answers are Perfetto's TraceProcessorRpcStream, in protobuf.
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const [engine, trace, query] = process.argv.slice(2);
const node = process;
const PIECE_BYTES = 16 << 20;
const APPEND = 1, FINISH = 2, QUERY = 3; // methods
const TRACE_DATA = 101, QUERY_ARGUMENTS = 103, QUERY_RESULT = 203; // fields of TraceProcessorRpc

function varint(number) {
  const bytes = [];
  for (let rest = number; ; rest >>>= 7) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 127) | 128);
  }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) =>
  Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

function readVarint(buffer, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = buffer[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [value, at];
  }
}

function* fields(buffer) {
  const sizes = { 1: 8, 5: 4 };
  for (let at = 0; at < buffer.length; ) {
    let key, value;
    [key, at] = readVarint(buffer, at);
    const kind = Number(key & 7n);
    [value, at] = kind === 0 || kind === 2 ? readVarint(buffer, at) : [0n, at];
    const size = kind === 2 ? Number(value) : (sizes[kind] ?? 0);
    yield [Number(key >> 3n), kind === 0 ? value : buffer.subarray(at, at + size)];
    at += size;
  }
}

let received = [];
const port = { postMessage: (data) => received.push(Buffer.from(data)), onmessage: null, start() {} };

function startEngine() {
  const read = (name) => fs.readFileSync(path.join(engine, path.basename(String(name))));
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = function () {};
  globalThis.importScripts = function () {};
  globalThis.location = { href: `file://${engine}/engine_bundle.js`, protocol: "http:" };
  globalThis.XMLHttpRequest = class {
    open(method, name) { this.name = name; }
    send() { this.response = new Uint8Array(read(this.name)).buffer; this.status = 200; }
  };
  globalThis.fetch = async (name) =>
    new Response(read(name), { headers: { "Content-Type": "application/wasm" } });
  delete globalThis.process; // else the bundle takes this for Node.js
  vm.runInThisContext(read("engine_bundle.js").toString(), { filename: "engine_bundle.js" });
  globalThis.onmessage({ data: port });
}

let sequence = 1;
function request(method, ...rest) {
  received = [];
  const message = Buffer.concat([number(1, sequence++), number(2, method), ...rest]);
  port.onmessage({ data: new Uint8Array(bytes(1, message)) });
  return Buffer.concat(received);
}

function fail(text) {
  node.stderr.write(`${text}\n`);
  node.exit(1);
}

function printRows(answer) {
  const columns = [];
  for (const [, message] of fields(answer))
    for (const [field, result] of fields(message)) {
      if (field !== QUERY_RESULT) continue;
      for (const [part, value] of fields(result)) {
        if (part === 1) columns.push(value.toString());
        if (part === 2) fail(value.toString());
        if (part === 3) printBatch(columns.length, value);
      }
    }
}

function printBatch(width, batch) {
  const values = { 2: [], 3: [], 4: [] }; // integers, reals, texts, in the order of their cells
  let kinds = [];
  for (const [field, data] of fields(batch)) {
    if (field === 1) kinds = [...data];
    if (field === 2)
      for (let at = 0, value; at < data.length; values[2].push(BigInt.asIntN(64, value)))
        [value, at] = readVarint(data, at);
    if (field === 3) for (let at = 0; at < data.length; at += 8) values[3].push(data.readDoubleLE(at));
    if (field === 5) values[4] = data.toString().split("\0");
  }
  const cells = kinds.map((kind) => values[kind]?.shift() ?? "");
  for (let at = 0; at < cells.length; at += width)
    node.stdout.write(`${cells.slice(at, at + width).join("\t")}\n`);
}

async function main() {
  startEngine();
  for (let waits = 0; !port.onmessage && waits < 2000; waits++)
    await new Promise((resolve) => setTimeout(resolve, 5));
  globalThis.process = node;
  if (!port.onmessage) fail("the engine did not start");
  await new Promise((resolve) => setTimeout(resolve, 50));
  const file = fs.openSync(trace, "r");
  const piece = Buffer.alloc(PIECE_BYTES);
  for (let size; (size = fs.readSync(file, piece, 0, PIECE_BYTES)) > 0; )
    request(APPEND, bytes(TRACE_DATA, piece.subarray(0, size)));
  request(FINISH);
  printRows(request(QUERY, bytes(QUERY_ARGUMENTS, bytes(1, fs.readFileSync(query)))));
  node.exit(0);
}

main().catch((error) => {
  globalThis.process = node;
  fail(String(error.stack));
});
