/** Writes a synthetic recording as one HTML file: `npm run sample -- OUT.html [events]`. */

import { readFile, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import type { Category, Focus } from "../src/data/head";
import { encodeContainer, type RowEvents, type RowInput } from "./encode";
import { seeded } from "./random";

const CATEGORIES: Category[] = [
  { name: "gemm", kind: "busy", meaning: "matrix multiplication" },
  { name: "attention", kind: "busy", meaning: "fused attention" },
  { name: "elementwise", kind: "busy", meaning: "elementwise operations" },
  { name: "collective", kind: "busy", meaning: "communication and waiting for ranks" },
  { name: "copy-h2d", kind: "busy", meaning: "host-to-device copies" },
  { name: "launch-bound", kind: "idle", meaning: "waiting for the next launch" },
  { name: "host-sync", kind: "idle", meaning: "CPU-GPU synchronization" },
  { name: "input", kind: "idle", meaning: "CPU loads or prepares data" },
  { name: "cuda-api", kind: "api", meaning: "CUDA API calls" },
  { name: "nvtx", kind: "range", meaning: "NVTX ranges" },
];
const place = (name: string): number => CATEGORIES.findIndex((one) => one.name === name);
const KERNELS = 420;
const DEVICES = 4;

interface Mutable {
  start: number[];
  duration: number[];
  name: number[];
  row: number[];
  launch: number[];
}

const empty = (): Mutable => ({ start: [], duration: [], name: [], row: [], launch: [] });

function makeNames(): [string, number][] {
  const names: [string, number][] = [];
  const kinds = ["gemm", "elementwise", "attention", "elementwise", "gemm"];
  for (let i = 0; i < 90; i++) {
    const kind = kinds[i % kinds.length] as string;
    names.push([`void ${kind}_kernel_${i}<float, ${64 << i % 3}, 4>(float const*, float*, int)`, place(kind)]);
  }
  names.push(["ncclDevKernel_AllReduce_Sum_bf16_RING_LL", place("collective")]);
  names.push(["<img src=x onerror=alert(1)></script>\u202egnp.exe\u0000", place("copy-h2d")]);
  for (const name of ["launch-bound", "host-sync", "input"]) names.push([name, place(name)]);
  for (const name of ["gemm", "elementwise", "attention", "collective", "copy-h2d"]) names.push([name, place(name)]);
  for (const name of ["cudaLaunchKernel", "cudaStreamSynchronize"]) names.push([name, place("cuda-api")]);
  for (const name of ["forward", "backward", "optimizer.step"]) names.push([name, place("nvtx")]);
  return names;
}

export function makeSample(wanted: number) {
  const random = seeded(1);
  const names = makeNames();
  const nameOf = (text: string): number => names.findIndex(([name]) => name === text);
  const perStep = KERNELS * 2 * DEVICES;
  const steps = Math.max(2, Math.round(wanted / perStep));
  const rows: RowInput[] = [];
  const stepStart: number[] = [];
  const stepEnd: number[] = [];
  let kernelRow = 0;
  let apiRow = 0;
  let end = 0;
  for (let device = 0; device < DEVICES; device++) {
    const [state, stream, api, ranges, inner] = [empty(), empty(), empty(), empty(), empty()];
    const [time, value]: number[][] = [[], []];
    let host = 1000 + device * 700;
    let free = host;
    const segment = (from: number, to: number, name: number): void => {
      if (to <= from) return;
      state.start.push(from);
      state.duration.push(to - from);
      state.name.push(name);
    };
    for (let step = 0; step < steps; step++) {
      if (step % 3 === 2) host += 900_000; // waits for data
      const began = host;
      const cause = nameOf(["launch-bound", "host-sync", "input"][step % 3] as string);
      let phase = host;
      for (let k = 0; k < KERNELS; k++) {
        const name = k % 60 === 59 ? 90 : k === 3 ? 91 : (k * 7) % 90;
        const call = Math.floor(1500 + random() * 2500);
        api.start.push(host);
        api.duration.push(call);
        api.name.push(nameOf("cudaLaunchKernel"));
        api.row.push(apiRow);
        const from = Math.max(free, host + call + 900);
        const length = Math.floor((1 + ((k * 37) % 50)) * (k % 140 < 60 ? 300 : 90) * (0.97 + 0.06 * random()));
        if (from > free) segment(free, from, cause);
        const category = CATEGORIES[(names[name] as [string, number])[1]]?.name ?? "gemm";
        segment(from, from + length, nameOf(category));
        stream.start.push(from);
        stream.duration.push(length);
        stream.name.push(name);
        stream.row.push(kernelRow++);
        stream.launch.push(apiRow++);
        free = from + length;
        host += call + Math.floor(random() * 3000);
        if (k === 139 || k === 349 || k === KERNELS - 1) {
          inner.start.push(phase);
          inner.duration.push(host - phase);
          inner.name.push(nameOf(k === 139 ? "forward" : k === 349 ? "backward" : "optimizer.step"));
          phase = host;
        }
      }
      if (device === 0) time.push(free);
      value.push(20e9 + 30e9 * random());
      if (step % 3 === 1) {
        api.start.push(host);
        api.duration.push(Math.max(1, free - host));
        api.name.push(nameOf("cudaStreamSynchronize"));
        api.row.push(apiRow++);
        host = Math.max(host + 1, free) + 2000;
      } else host = Math.max(host, free - 300_000);
      ranges.start.push(began);
      ranges.duration.push(host - began);
      ranges.name.push(names.push([`step_${step}`, place("nvtx")]) - 1);
      if (device === 0) {
        stepStart.push(began);
        stepEnd.push(host);
      }
    }
    end = Math.max(end, free, host);
    const gpu = `gpu${device}`;
    const cpu = `rank${device}`;
    const events = (made: Mutable): RowEvents => ({
      ...made,
      columns: {
        ...(made.row.length ? { row: { encoding: "delta" as const, values: made.row } } : {}),
        ...(made.launch.length
          ? { launch: { encoding: "optional-delta" as const, values: made.launch } }
          : {}),
      },
    });
    const total = (made: Mutable): number => made.duration.reduce((sum, ns) => sum + ns, 0);
    rows.push(
      { id: gpu, parent: null, label: `GPU ${device}`, kind: "group", device },
      { id: `${gpu}/busy`, parent: gpu, label: "busy / idle", kind: "state", device, events: events(state) },
      { id: `${gpu}/s7`, parent: gpu, label: "stream 7", kind: "stream", device, table: 0, busy_ns: total(stream), events: events(stream) },
      { id: cpu, parent: null, label: `python ${4000 + device}`, kind: "group", process: device },
      { id: `${cpu}/t`, parent: cpu, label: "thread main", kind: "group", thread: device },
      { id: `${cpu}/r0`, parent: `${cpu}/t`, label: "NVTX", kind: "range", thread: device, depth: 0, events: events(ranges) },
      { id: `${cpu}/r1`, parent: `${cpu}/t`, label: "NVTX", kind: "range", thread: device, depth: 1, events: events(inner) },
      { id: `${cpu}/api`, parent: `${cpu}/t`, label: "CUDA API", kind: "api", thread: device, table: 1, events: events(api) },
    );
    if (device === 0) {
      rows.push({
        id: `${gpu}/mem`, parent: null, label: "memory", kind: "counter", unit: "bytes", min: 0, max: 50e9,
        events: { start: time, duration: time.map(() => 0), name: time.map(() => 0), columns: { value: { encoding: "float64", values: value } } },
      });
    }
  }
  const kernels = names.slice(0, 92).map(([text], name) => [text, 100 + name, 5e6 - name * 5e4, 0.01]);
  const result = {
    columns: [
      { name: "name", title: "Name", unit: "none" },
      { name: "instances", title: "Instances", unit: "count" },
      { name: "total_ns", title: "Total time", unit: "ns" },
      { name: "share", title: "Share", unit: "ratio" },
    ],
    rows: kernels,
    names: kernels.map((_, name) => [name]),
  };
  const finding = (id: string, at: number): Focus => ({
    id,
    windows_ns: [0, 3, 6].map((k) => [stepStart[(at + k) % steps] as number, stepEnd[(at + k) % steps] as number]),
    rows: ["gpu0/busy"],
    events: [],
    colour: "cause",
  });
  return encodeContainer(
    {
      title: "sample & <b>train</b>.py",
      start_ns: 0,
      end_ns: end,
      categories: CATEGORIES,
      tables: ["kernel", "api_call"],
      links: [{ name: "launch", table: "api_call", text: "launched by" }],
      steps: [{ label: "GPU 0", rows: ["gpu0"], start_ns: stepStart, end_ns: stepEnd, text: stepStart.map((_, i) => `step_${i}`), excluded: stepStart.map((_, i) => i === 0) }],
      findings: [finding("F1", 0), finding("F2", 1)],
      summary: {
        verdict: "A synthetic recording.",
        findings: [
          { id: "F1", rule: "launch-bound", severity: "high", title: "Launch-bound: every step repeats the same launches", saving_ns: 61e5, saving_low_ns: 55e5, saving_high_ns: 64e5, share: 0.3, claim: "GPU idle 6.10 ms per step.", fix: "Capture the step as a CUDA graph.", verify: "warpline compare" },
          { id: "F2", rule: "host-sync", severity: "medium", title: "CPU-GPU synchronization in every step", claim: "The CPU synchronizes with the GPU." },
        ],
      },
      results: [{ name: "cuda_gpu_kern_sum", title: "CUDA GPU Kernel Summary", command: "warpline stats sample -r cuda_gpu_kern_sum", block: 2 }],
      environment: [["GPU", "synthetic"], ["Driver", "<none>"]],
    },
    names,
    rows,
    [{ kind: "results", bytes: new TextEncoder().encode(JSON.stringify(result)) }],
  );
}

const escaped = (text: string): string =>
  text.replace(/[<>&\u2028\u2029]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
const hash = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** Writes the page as CONTAINER.md says. */
export async function samplePage(events: number, dist: string): Promise<string> {
  const { head, blocks } = makeSample(events);
  const [script, style] = await Promise.all(["viewer.js", "viewer.css"].map((name) => readFile(`${dist}/${name}`, "utf8")));
  const take = "warpline.take()";
  const policy = `default-src 'none'; script-src ${hash(script as string)} ${hash(take)}; style-src ${hash(style as string)}; worker-src blob:; child-src blob:; img-src data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'`;
  const block = (i: number): string =>
    `<script type="text/plain" data-block="${i}">${Buffer.from(blocks[i] as Uint8Array).toString("base64")}</script>`;
  const rest = blocks.slice(2).map((_, i) => `${block(i + 2)}<script>${take}</script>`);
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}"><title>Sample</title><style>${style}</style></head><body><main id="warpline-static"><h1>A synthetic recording</h1><p><a href="#f" data-finding="F1">F1 Launch-bound: every step repeats the same launches</a></p></main><div id="warpline-app"></div><script type="application/json" id="warpline-head">${escaped(JSON.stringify(head))}</script>${block(0)}${block(1)}<script>${script}</script>${rest.join("\n")}</body></html>`;
}

const [out, events] = process.argv.slice(2);
if (out) {
  const page = await samplePage(Number(events ?? 1_000_000), "../src/warpline/viewer/dist");
  await writeFile(out, page);
  console.log(`${out}: ${(page.length / 1e6).toFixed(1)} MB`);
}
