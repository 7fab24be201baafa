import { defineConfig } from "vitest/config";

// Without isolation the modules of src/ are loaded once for all files of tests: half the time. They keep nothing
// between calls that a test could leave behind.
export default defineConfig({
  test: { include: ["src/**/*.test.ts"], environment: "node", testTimeout: 20_000, isolate: false },
});
