// @vitest-environment jsdom
/** Tests of the data, results and help pages and the model menu: rows, uploads, columns, reports, cards. */

import { cleanup, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";

import type { Card, DataSet, ModelEntry, PredictionData } from "../src/api/types";
import { DataPage } from "../src/data/DataPage";
import { RowNavigation } from "../src/data/RowNavigation";
import { HelpPage } from "../src/help/HelpPage";
import { ResultsPage } from "../src/results/ResultsPage";
import { ModelChoice } from "../src/shell/ModelChoice";
import { type Server, SourceError } from "../src/source/source";
import { KEYS } from "../src/state/keyMap";
import { REFUSAL, SESSION, renderPage } from "./pageHarness";

afterEach(cleanup);

const SET: DataSet = {
  id: "d",
  name: "reviews.tsv",
  rows: 3,
  text: "text",
  pair: null,
  label: "label",
  guessed: ["label"],
  columns: ["text", "label", "source"],
};
const WITH_DATA = { ...SESSION, data: [SET] };
const makeRow = (number: number, text: string, label: string, predicted: string, surprise: number) => ({
  number,
  text,
  pair: null,
  label,
  predicted,
  probability: 0.9,
  surprise,
  right: label === predicted,
});
const PREDICTIONS: PredictionData = {
  kind: "predicted",
  model: "/models/base",
  data: "d",
  rows: [
    makeRow(0, "fine", "pos", "pos", 0.1),
    makeRow(1, "<b>dull</b>", "neg", "pos", 4),
    makeRow(2, "bad", "neg", "neg", 0.2),
  ],
  given: 3,
  left_out: ["1 row was left out: it has no text."],
  accuracy: { mean: 2 / 3, low: null, high: null, n: 3 },
  confusion: [[1, 1], [0, 1]], // prettier-ignore
  labels: ["neg", "pos"],
  surprise: "Surprise is the bits.",
};
const listTexts = (): string[] => screen.getAllByTitle("Explain this input").map((each) => each.textContent);

describe("DataPage", () => {
  it("no data: says what to do", async () => {
    renderPage(<DataPage />, {});
    expect(await screen.findByText("No data set yet")).toBeTruthy();
    expect(screen.getByText("whence app --data reviews.tsv")).toBeTruthy();
  });

  it("predicts without a click, surprising rows first, and gives the accuracy", async () => {
    const predict = vi.fn(() => Promise.resolve(PREDICTIONS));
    renderPage(<DataPage />, { predict }, {}, WITH_DATA);
    await screen.findByText("66.7%");
    expect(predict).toHaveBeenCalledTimes(1);
    expect(listTexts()).toEqual(["<b>dull</b>", "bad", "fine"]);
    expect(screen.getByText("of 3 rows, too few for an interval")).toBeTruthy();
    expect(screen.getByText("1 row was left out: it has no text.")).toBeTruthy();
  });

  it("confusion cell: filters the rows; a second click shows all", async () => {
    const { state } = renderPage(
      <DataPage />,
      { predict: () => Promise.resolve(PREDICTIONS) },
      { model: "tuned" },
      WITH_DATA,
    );
    fireEvent.click(await screen.findByLabelText("1 of 2 with the label neg were predicted pos"));
    expect(listTexts()).toEqual(["<b>dull</b>"]);
    expect(state().rows).toBe("label=neg&predicted=pos");
    fireEvent.click(screen.getByText("Show all"));
    expect(listTexts()).toHaveLength(3);
  });

  it("clicked row: opens the workbench without selections of another input", async () => {
    const before = { model: "base", token: 3, tokens: [1], rows: "search=fine", data: "d" };
    const { state } = renderPage(
      <DataPage />,
      { predict: () => Promise.resolve(PREDICTIONS) },
      before,
      WITH_DATA,
    );
    fireEvent.click(await screen.findByTitle("Explain this input"));
    expect(state()).toMatchObject({ page: "explain", model: "base", text: "fine", token: null, tokens: [] });
    expect(state().rows).toBe("search=fine&at=0");
  });

  it("other columns: read again, guessed ones marked", async () => {
    const columns = vi.fn(() => Promise.resolve({ ...SET, label: "source", guessed: [], rows: 2 }));
    const predict = vi.fn(() => Promise.resolve(PREDICTIONS));
    renderPage(<DataPage />, { readColumns: columns, predict }, { model: "columns" }, WITH_DATA);
    const labels = await screen.findByLabelText(/^Labels/);
    expect(labels.closest("label")?.textContent).toMatch(/guessed$/);
    fireEvent.change(labels, { target: { value: "source" } });
    await screen.findAllByText("2 rows");
    const asked = { text: "text", pair: "", label: "source" };
    expect(columns).toHaveBeenCalledWith("d", asked, expect.anything());
    expect(screen.queryByText("guessed")).toBeNull();
    // Another column is another data set: it is predicted anew.
    await vi.waitFor(() => expect(predict).toHaveBeenCalledTimes(2));
  });

  it("row navigation: next row, and back to the table", async () => {
    const answers = { predict: () => Promise.resolve(PREDICTIONS) };
    const start = { model: "tuned", data: "d" };
    const page = (
      <>
        <DataPage />
        <RowNavigation />
      </>
    );
    const { state } = renderPage(page, answers, start, WITH_DATA);
    fireEvent.click(await screen.findByText("<b>dull</b>"));
    expect(screen.getByText(/row 1 · 1 of 3 by surprise/)).toBeTruthy();
    expect(screen.getByText<HTMLButtonElement>("‹ Previous row").disabled).toBe(true);
    fireEvent.click(screen.getByText("Next row ›"));
    expect(state()).toMatchObject({ page: "explain", model: "tuned", text: "bad", rows: "at=2" });
    fireEvent.click(within(screen.getByLabelText("Rows of the data set")).getByText("reviews.tsv"));
    expect(state().page).toBe("data");
  });

  it("failed prediction: shows the reason, and retries", async () => {
    const predict = vi.fn(() => Promise.reject(REFUSAL));
    renderPage(<DataPage />, { predict }, { model: "odd" }, WITH_DATA);
    expect(await screen.findByText("It cannot be done.")).toBeTruthy();
    fireEvent.click(screen.getByText("Try again"));
    expect(predict).toHaveBeenCalledTimes(2);
    await screen.findByText("It cannot be done.");
  });

  it("dropped file: uploaded; too large: refused before the upload", async () => {
    const upload = vi.fn(() => Promise.resolve(SET));
    const { state } = renderPage(<DataPage />, {
      uploadData: upload,
      predict: () => Promise.resolve(PREDICTIONS),
    });
    const field = await screen.findByLabelText("Bring a file");
    fireEvent.change(field, { target: { files: [new File(["x".repeat(1001)], "large.tsv")] } });
    expect(await screen.findByText(/large.tsv has 0.0 MiB; the server takes/)).toBeTruthy();
    expect(upload).not.toHaveBeenCalled();
    fireEvent.change(field, { target: { files: [new File(["text"], "reviews.tsv")] } });
    expect(await screen.findByRole("heading", { name: "reviews.tsv" })).toBeTruthy();
    expect(state().data).toBe("d");
  });
});

describe("file with unknown columns", () => {
  const table = { columns: ["id", "body", "stars"], rows: [["7", "a fine film", "positive"]] };
  const fault = {
    code: "bad-examples",
    message: "four.csv has no column of texts.",
    hint: "Choose.",
    see: "",
    table,
  };

  it("upload: columns are chosen by clicks, and the file is read", async () => {
    const upload = vi
      .fn<Server["uploadData"]>()
      .mockRejectedValueOnce(new SourceError(fault))
      .mockResolvedValueOnce(SET);
    const { state } = renderPage(<DataPage />, {
      uploadData: upload,
      predict: () => Promise.resolve(PREDICTIONS),
    });
    const file = new File(["x"], "four.csv");
    fireEvent.change(screen.getByLabelText("Bring a file"), { target: { files: [file] } });
    expect(await screen.findByText("Which column of four.csv is the text?")).toBeTruthy();
    expect(screen.getByText("a fine film")).toBeTruthy();
    const read = screen.getByRole<HTMLButtonElement>("button", { name: "Read the file" });
    expect(read.disabled).toBe(true);
    const column = (name: string) => within(screen.getByRole("group", { name: `${name} is` }));
    fireEvent.click(column("id").getByText("Text"));
    fireEvent.click(column("body").getByText("Text")); // one column is the text, and no longer the other
    expect(column("id").getByText("Text").getAttribute("aria-pressed")).toBe("false");
    fireEvent.click(column("stars").getByText("Label"));
    fireEvent.click(read);
    await vi.waitFor(() => expect(state().data).toBe(SET.id));
    expect(upload).toHaveBeenLastCalledWith(file, expect.anything(), {
      text: "body",
      pair: "",
      label: "stars",
    });
  });

  it("server's file: the column chooser replaces it, and nothing is predicted", async () => {
    const set = { ...SET, id: "four", rows: 0, problem: fault };
    const columns = vi.fn<Server["readColumns"]>().mockResolvedValue({ ...SET, id: "four" });
    const predict = vi.fn<Server["predict"]>().mockResolvedValue(PREDICTIONS);
    renderPage(<DataPage />, { readColumns: columns, predict }, {}, { ...SESSION, data: [set] });
    expect(screen.getByText("columns to be chosen")).toBeTruthy();
    expect(predict).not.toHaveBeenCalled();
    fireEvent.click(within(screen.getByRole("group", { name: "body is" })).getByText("Text"));
    fireEvent.click(screen.getByRole("button", { name: "Read the file" }));
    await vi.waitFor(() => expect(predict).toHaveBeenCalled());
    expect(columns).toHaveBeenCalledWith("four", { text: "body", pair: "", label: null }, expect.anything());
  });
});

describe("ModelChoice", () => {
  const choice = (onChange: (id: string) => void) => (
    <ModelChoice label="Model" value="base" onChange={onChange} />
  );
  const OPEN = { ...SESSION, allow_load: true };

  it("loading not allowed: offers no other model", () => {
    renderPage(choice(vi.fn()), {});
    expect(screen.queryByText("Load another model …")).toBeNull();
  });

  it("loading allowed: loads another model, or says why it failed", async () => {
    const entry = { ...SESSION.models[0], id: "new", name: "org/new" } as ModelEntry;
    const load = vi.fn().mockRejectedValueOnce(REFUSAL).mockResolvedValueOnce(entry);
    const onChange = vi.fn();
    renderPage(choice(onChange), { load }, {}, OPEN);
    fireEvent.change(screen.getByLabelText("Model"), { target: { value: "\n" } });
    const field = screen.getByLabelText("Name or folder of the model");
    fireEvent.change(field, { target: { value: " org/new " } });
    fireEvent.keyDown(field, { key: "Enter" });
    expect(await screen.findByText("It cannot be done.")).toBeTruthy();
    expect(onChange).not.toHaveBeenCalled();
    fireEvent.click(screen.getByText("Load"));
    await vi.waitFor(() => expect(onChange).toHaveBeenCalledWith("new"));
    expect(load).toHaveBeenLastCalledWith("org/new", expect.anything());
  });
});

describe("ResultsPage", () => {
  it("no results: lists the commands that make them", async () => {
    renderPage(<ResultsPage />, {
      results: () => Promise.resolve({ results: [], problems: ["odd.json: no JSON."] }),
    });
    expect(await screen.findByText("whence audit data.tsv --json > audit.json")).toBeTruthy();
    expect(screen.getByText("odd.json: no JSON.")).toBeTruthy();
  });

  it("opens a report in a frame that runs no script", async () => {
    const result = {
      id: "a b",
      kind: "audit",
      name: "a.json",
      model: "m",
      summary: "It is no.",
      changed: null,
    };
    const { state } = renderPage(<ResultsPage />, {
      results: () => Promise.resolve({ results: [result], problems: [] }),
    });
    fireEvent.click(await screen.findByText("It is no."));
    expect(state().result).toBe("a b");
    const frame = screen.getByTitle("Audit: a.json");
    expect(frame.getAttribute("sandbox")).toBe("");
    expect(frame.getAttribute("src")).toBe("/api/results/a%20b/page");
  });

  it("no choice: opens the first result", async () => {
    const [one, two] = ["a", "b"].map((id) => ({
      id,
      kind: "trust",
      name: `${id}.json`,
      model: "m",
      summary: id,
      changed: null,
    }));
    const results = [one, two].filter((each) => each !== undefined);
    renderPage(<ResultsPage />, { results: () => Promise.resolve({ results, problems: [] }) });
    expect((await screen.findByTitle("Trust card: a.json")).getAttribute("src")).toBe("/api/results/a/page");
    expect(screen.queryByText("Choose a result")).toBeNull();
  });

  it("missing result or refusal: says so", async () => {
    const result = { id: "a", kind: "trust", name: "a.json", model: "m", summary: "", changed: null };
    renderPage(
      <ResultsPage />,
      { results: () => Promise.resolve({ results: [result], problems: [] }) },
      { result: "gone" },
    );
    expect(await screen.findByText("That result is not here")).toBeTruthy();
    cleanup();
    renderPage(<ResultsPage />, {});
    expect(await screen.findByText("It cannot be done.")).toBeTruthy();
  });
});

describe("HelpPage", () => {
  const cards: Card[] = [
    {
      kind: "method",
      name: "rollout",
      summary: "Multiplies.",
      facts: { family: "attention", misleads_when: "often" },
    },
    { kind: "metric", name: "deletion", summary: "Removes.", facts: { kind: "faithfulness" } },
  ];
  const help = () => Promise.resolve({ cards });

  it("has every key and the reading guide", async () => {
    renderPage(<HelpPage />, { help });
    await screen.findByText("rollout");
    expect(screen.getByText("Attention is not importance until tested.")).toBeTruthy();
    for (const { words } of KEYS) expect(screen.getAllByText(words).length).toBeGreaterThan(0);
  });

  it("search and family: filter the cards", async () => {
    renderPage(<HelpPage />, { help });
    const search = within(await screen.findByRole("search", { name: "Cards" }));
    fireEvent.change(search.getByLabelText("Find"), { target: { value: "remov" } });
    expect(screen.queryByText("rollout")).toBeNull();
    fireEvent.change(search.getByLabelText("Find"), { target: { value: "" } });
    fireEvent.change(search.getByLabelText("Family"), { target: { value: "method:attention" } });
    expect(screen.queryByText("deletion")).toBeNull();
    expect(screen.getByText("1 card")).toBeTruthy();
  });

  it("opened card: has a link", async () => {
    const { state } = renderPage(<HelpPage />, { help }, { page: "help" });
    fireEvent.click(await screen.findByRole("button", { name: "rollout" }));
    expect(state().card).toBe("method:rollout");
    expect(screen.getByText("often")).toBeTruthy();
    expect(screen.getByText("Link to this card").getAttribute("href")).toBe("#/help?card=method%3Arollout");
  });
});
