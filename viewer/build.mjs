// Bundles the pages into ../src/warpline/viewer/dist, each as one script and one style sheet: the
// timeline (viewer), the kernels (kernels), the memory (memory), flame graphs (flame) and fleets (fleet). The same input gives the same bytes, so that a stale
// bundle is detected.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";

const MOST_BYTES = 400_000;
const OUT = "../src/warpline/viewer/dist";
const SHARED = {
  bundle: true,
  minify: true,
  charset: "ascii",
  target: ["chrome109", "firefox115", "safari16.4"],
  legalComments: "none",
  logLevel: "warning",
};

/** `import script from "worker-text:FILE"` imports the bundled file as text. */
const workerText = {
  name: "worker-text",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^worker-text:/ }, ({ path, resolveDir }) => ({
      path: resolve(resolveDir, `${path.slice("worker-text:".length)}.ts`),
      namespace: "worker-text",
    }));
    onLoad({ filter: /.*/, namespace: "worker-text" }, async ({ path }) => {
      const { outputFiles } = await build({ ...SHARED, entryPoints: [path], format: "iife", write: false });
      return { contents: outputFiles[0].text, loader: "text", resolveDir: dirname(path) };
    });
  },
};

const PAGES = { viewer: "src/app", kernels: "src/kernels/app", memory: "src/memory/app", flame: "src/flame/app", fleet: "src/fleet/app" };
// One build for each: names are shortened by how often a build has them.
for (const [page, folder] of Object.entries(PAGES)) {
  await build({
    ...SHARED,
    entryPoints: { [page]: `${folder}/main.tsx` },
    format: "iife",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
    plugins: [workerText],
    outdir: OUT,
  });
  await build({ ...SHARED, entryPoints: { [page]: `${folder}/${page}.css` }, outdir: OUT });
}
// The palette rules must come before the rules that use them.
const palette = await build({ ...SHARED, entryPoints: ["src/engine/palette-css.ts"], format: "esm", write: false });
const { paletteCss } = await import(`data:text/javascript,${encodeURIComponent(palette.outputFiles[0].text)}`);
await writeFile(`${OUT}/viewer.css`, paletteCss() + (await readFile(`${OUT}/viewer.css`, "utf8")));

for (const page of Object.keys(PAGES)) {
  let bytes = 0;
  for (const name of [`${page}.js`, `${page}.css`]) {
    const text = await readFile(`${OUT}/${name}`, "utf8");
    bytes += Buffer.byteLength(text);
    if (/<\/script|<!--|<\/style/i.test(text)) throw new Error(`${name} holds text that ends its element.`);
  }
  console.log(`${page}.js and ${page}.css: ${bytes} bytes`);
  if (bytes > MOST_BYTES) throw new Error(`More than ${MOST_BYTES} bytes.`);
}
