// @vitest-environment jsdom
/** Tests of the runs page and of a run's rows: list, polling, a report, refusals, filters, open row. */

import { cleanup, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";

import type { RunExample, RunRow, RunRows, Runs, RunSummary } from "../src/api/types";
import { RunsPage } from "../src/runs/RunsPage";
import type { Server } from "../src/source/source";
import { REFUSAL, renderPage } from "./pageHarness";

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

const run = (id: string, more: Partial<RunSummary> = {}): RunSummary => ({
  id,
  name: id,
  model: "/models/tuned",
  data: "sst2.tsv",
  methods: ["attcat", "rollout"],
  metrics: ["aopc"],
  audit: [],
  done: 10,
  total: 10,
  failed: 1,
  bad: 2,
  state: "complete",
  problem: null,
  changed: "2026-01-01T00:00:00+00:00",
  quiet: 400,
  version: "1",
  asks: "tuned",
  ...more,
});
const makeRuns = (...runs: RunSummary[]): Runs => ({ folder: "/runs", runs, left_out: 0 });
const makeRow = (number: number, more: Partial<RunRow> = {}): RunRow => ({
  row: number,
  id: `line ${number}`,
  method: "attcat",
  text: `text ${number} <b>`,
  pair: null,
  label: "pos",
  target: "pos",
  predicted: "pos",
  probability: 0.9,
  value: null,
  error: null,
  why: null,
  ...more,
});
const rows = (...some: RunRow[]): RunRows => ({ rows: some, found: some.length, first: 0, problems: [] });
const EXAMPLE: RunExample = {
  row: 3,
  method: "attcat",
  methods: ["attcat", "rollout"],
  input: { text: "not bad", pair: null, dropped: 0 },
  label: "neg",
  target: "neg",
  predicted: "pos",
  probability: 0.75,
  signed: true,
  scale: null,
  words: [
    { text: "not", before: "", segment: 0, score: -1 },
    { text: "bad", before: " ", segment: 0, score: 0.5 },
  ],
  tests: [{ metric: "aopc", value: 0.25, null: 0.1, why: null }],
  why: null,
};

describe("RunsPage", () => {
  it("no runs: says how to make one", async () => {
    renderPage(<RunsPage />, { runs: () => Promise.resolve({ folder: null, runs: [], left_out: 0 }) });
    expect(await screen.findByText("No runs yet")).toBeTruthy();
    expect(screen.getByText("whence app --runs runs")).toBeTruthy();
    expect(screen.getByText(/^whence run --model/)).toBeTruthy();
  });

  it("lists the runs, with their problems", async () => {
    const damaged = run("torn", { state: "damaged", problem: "torn: manifest.json is damaged.", model: "" });
    renderPage(<RunsPage />, {
      runs: () => Promise.resolve(makeRuns(run("sst2", { done: 3, state: "running" }), damaged)),
    });
    const [, first, , third] = within(await screen.findByRole("table")).getAllByRole("row");
    expect(within(first as HTMLElement).getByText(/3 of 10/)).toBeTruthy();
    expect(within(first as HTMLElement).getByText("unfinished")).toBeTruthy();
    expect(within(third as HTMLElement).getByText("torn: manifest.json is damaged.")).toBeTruthy();
  });

  it("running run: polls the list", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const listRuns = vi
      .fn<() => Promise<Runs>>()
      .mockResolvedValueOnce(makeRuns(run("sst2", { done: 3, state: "running", quiet: 1 })))
      .mockResolvedValue(makeRuns(run("sst2", { done: 7, state: "running", quiet: 1 })));
    renderPage(<RunsPage />, { runs: listRuns });
    await screen.findByText(/3 of 10/);
    await vi.advanceTimersByTimeAsync(3100);
    expect(await screen.findByText(/7 of 10/)).toBeTruthy();
  });

  it("click opens a run's report, and leads back to the list", async () => {
    const { state } = renderPage(<RunsPage />, {
      runs: () => Promise.resolve(makeRuns(run("a"), run("b"))),
      runPage: () => Promise.resolve(),
    });
    fireEvent.click(await screen.findByRole("button", { name: "b" }));
    expect(state()).toMatchObject({ run: "b" });
    const frame = await screen.findByTitle("Report of b");
    expect(frame.getAttribute("src")).toBe("/api/runs/b/page");
    expect(frame.getAttribute("sandbox")).toBe("");
    expect(screen.getByRole("link", { name: "LaTeX" }).getAttribute("href")).toBe(
      "/api/runs/b/report?format=tex",
    );
    fireEvent.click(screen.getByRole("button", { name: "All runs" }));
    expect(state()).toMatchObject({ run: null });
  });

  it("refused report: shows the fault instead of a frame", async () => {
    renderPage(<RunsPage />, { runs: () => Promise.resolve(makeRuns(run("a"))) }, { run: "a" });
    expect((await screen.findByRole("alert")).textContent).toContain(REFUSAL.fault.message);
    expect(document.querySelector("iframe")).toBeNull();
  });

  it("unknown run in the link: says so", async () => {
    renderPage(<RunsPage />, { runs: () => Promise.resolve(makeRuns(run("a"))) }, { run: "gone" });
    expect(await screen.findByText("There is no run “gone” in the folder of this server.")).toBeTruthy();
    expect(screen.getByRole("table")).toBeTruthy();
  });

  it("newer results: wait until they are requested", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const listRuns = vi
      .fn<() => Promise<Runs>>()
      .mockResolvedValueOnce(makeRuns(run("a", { state: "running", quiet: 1 })))
      .mockResolvedValue(makeRuns(run("a", { state: "running", quiet: 1, version: "2" })));
    const runPage = vi.fn(() => Promise.resolve());
    renderPage(<RunsPage />, { runs: listRuns, runPage }, { run: "a" });
    await screen.findByTitle("Report of a");
    await vi.advanceTimersByTimeAsync(3100);
    fireEvent.click(await screen.findByRole("button", { name: "Show it" }));
    await waitFor(() => expect(runPage).toHaveBeenCalledTimes(2));
  });
});

describe("RunRowsView", () => {
  const page = { run: "a", tab: "rows" };
  const answers = {
    runs: () => Promise.resolve(makeRuns(run("a"))),
    runRows: () => Promise.resolve(rows(makeRow(3), makeRow(4, { error: "not-finite", why: "It is NaN." }))),
    runExample: () => Promise.resolve(EXAMPLE),
  };

  it("filters: sent to the server", async () => {
    const runRows = vi.fn<Server["runRows"]>(() => Promise.resolve(rows(makeRow(3))));
    const { state } = renderPage(<RunsPage />, { ...answers, runRows }, page);
    fireEvent.change(await screen.findByLabelText("Metric"), { target: { value: "aopc" } });
    fireEvent.change(await screen.findByLabelText("Order"), { target: { value: "worst" } });
    fireEvent.change(screen.getByLabelText("Explanations"), { target: { value: "false" } });
    await waitFor(() =>
      expect(runRows.mock.lastCall?.slice(0, 2)).toEqual(["a", "?failed=false&metric=aopc&order=worst"]),
    );
    expect(state().found).toBe("failed=false&metric=aopc&order=worst");
  });

  it("failed rows: shown with their reason", async () => {
    renderPage(<RunsPage />, answers, page);
    expect(await screen.findByText("text 3 <b>")).toBeTruthy();
    expect(screen.getByText("not-finite: It is NaN.")).toBeTruthy();
  });

  it("opened row: shows its words, and a link to the workbench", async () => {
    const { state } = renderPage(<RunsPage />, answers, page);
    fireEvent.click(await screen.findByText("text 3 <b>"));
    expect(state().found).toBe("at=3&by=attcat");
    const panel = await screen.findByRole("region", { name: "Row 3" });
    const word = await within(panel).findByTitle("−1");
    expect(word.textContent).toBe("not");
    expect(word.style.background).not.toBe("");
    expect(panel.textContent).toContain("predicted pos (75.0%) · labelled neg · explained for neg");
    const link = within(panel).getByRole("link", { name: "Explain this in the workbench" });
    expect(link.getAttribute("href")).toContain("#/explain?model=tuned&text=not+bad&m=attcat&target=neg");
  });

  it("model not on the server: says what to do", async () => {
    const runs = () => Promise.resolve(makeRuns(run("a", { asks: null })));
    renderPage(<RunsPage />, { ...answers, runs }, { ...page, found: "at=3" });
    expect(await screen.findByText("--model /models/tuned")).toBeTruthy();
    expect(screen.queryByRole("link", { name: "Explain this in the workbench" })).toBeNull();
  });
});
