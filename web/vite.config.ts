/** Vite configuration of two builds: the page (app.js, app.css, index.html), and the embedded page of files and notebooks (embed.js, embed.css). */

import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const SERVER = "http://127.0.0.1:8000";
const TOKEN = `Bearer ${process.env.WHENCE_TOKEN ?? ""}`;
const STATIC = "../src/whence/app/static";

// Fixed names without hashes, so that the committed bundle can be compared with a fresh build byte by byte.
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
    entry: "src/embed/embed.tsx",
    formats: ["es" as const],
    fileName: () => "embed.js",
    cssFileName: "embed",
  },
  // Vite keeps names and comments in library builds; this one is loaded as is, so minify it.
  rolldownOptions: { output: { codeSplitting: false, minify: true } },
};

export default defineConfig(({ mode }) => ({
  base: "./",
  plugins: [react()],
  build: mode === "embed" ? embed : page,
  // Library builds keep process.env for the user's bundler; here there is none.
  define: mode === "embed" ? { "process.env.NODE_ENV": JSON.stringify("production") } : {},
  // The server accepts requests only from its own origin and with its token, so the proxy sets both.
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
