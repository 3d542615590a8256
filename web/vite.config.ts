/** Two builds: the page (app.js, app.css, index.html), and what a file or a notebook carries with it (embed.js, embed.css). */

import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const SERVER = "http://127.0.0.1:8000";
const TOKEN = `Bearer ${process.env.WHENCE_TOKEN ?? ""}`;
const STATIC = "../src/whence/web/static";

// Names are fixed and nothing is hashed, so that the committed bundle can be held against a fresh build byte by byte.
const page = {
  outDir: STATIC,
  emptyOutDir: false,
  modulePreload: false,
  cssCodeSplit: false,
  assetsInlineLimit: 0,
  chunkSizeWarningLimit: 1000,
  rolldownOptions: {
    output: { entryFileNames: "app.js", assetFileNames: "app[extname]", codeSplitting: false },
  },
} as const;

const embed = {
  outDir: STATIC,
  emptyOutDir: false,
  chunkSizeWarningLimit: 1000,
  lib: {
    entry: "src/embed/main.tsx",
    formats: ["es" as const],
    fileName: () => "embed.js",
    cssFileName: "embed",
  },
  // A library's names and comments are left for whoever builds with it; nobody does.
  rolldownOptions: { output: { codeSplitting: false, minify: true } },
};

export default defineConfig(({ mode }) => ({
  base: "./",
  plugins: [react()],
  build: mode === "embed" ? embed : page,
  // A library build leaves this to whoever uses it; here nobody comes after.
  define: mode === "embed" ? { "process.env.NODE_ENV": JSON.stringify("production") } : {},
  // The server takes requests from its own page alone, so that they must look like that page's, and asks for its token.
  server: {
    proxy: {
      "/api": { target: SERVER, changeOrigin: true, headers: { origin: SERVER, authorization: TOKEN } },
    },
  },
  test: {
    include: ["src/**/*.test.{ts,tsx}", "test/**/*.test.{ts,tsx}"],
    benchmark: { include: ["bench/**/*.bench.ts"] },
  },
}));
