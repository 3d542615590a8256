// @vitest-environment jsdom
import { cleanup, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";

import type { Card, DataSet, ModelEntry, Predicted } from "../src/api/types";
import { DataPage } from "../src/data/DataPage";
import { RowWalk } from "../src/data/RowWalk";
import { HelpPage } from "../src/help/HelpPage";
import { ResultsPage } from "../src/results/ResultsPage";
import { ModelChoice } from "../src/shell/ModelChoice";
import { type Server, SourceError } from "../src/source/source";
import { KEYS } from "../src/state/keys";
import { REFUSED, SESSION, show } from "./page";

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
const row = (number: number, text: string, label: string, predicted: string, surprise: number) => ({
  number,
  text,
  pair: null,
  label,
  predicted,
  probability: 0.9,
  surprise,
  right: label === predicted,
});
const PREDICTED: Predicted = {
  kind: "predicted",
  model: "/models/base",
  data: "d",
  rows: [
    row(0, "fine", "pos", "pos", 0.1),
    row(1, "<b>dull</b>", "neg", "pos", 4),
    row(2, "bad", "neg", "neg", 0.2),
  ],
  given: 3,
  left_out: ["1 row was left out: it has no text."],
  accuracy: { mean: 2 / 3, low: null, high: null, n: 3 },
  confusion: [[1, 1], [0, 1]], // prettier-ignore
  labels: ["neg", "pos"],
  surprise: "Surprise is the bits.",
};
const texts = (): string[] => screen.getAllByTitle("Explain this input").map((each) => each.textContent);

describe("the data set page", () => {
  it("says what to do where there is no data", async () => {
    show(<DataPage />, {});
    expect(await screen.findByText("No data set yet")).toBeTruthy();
    expect(screen.getByText("whence app --data reviews.tsv")).toBeTruthy();
  });

  it("predicts by itself, the surprising first, and says how many are right", async () => {
    const predict = vi.fn(() => Promise.resolve(PREDICTED));
    show(<DataPage />, { predict }, {}, WITH_DATA);
    await screen.findByText("66.7%");
    expect(predict).toHaveBeenCalledTimes(1);
    expect(texts()).toEqual(["<b>dull</b>", "bad", "fine"]);
    expect(screen.getByText("of 3 rows, too few for an interval")).toBeTruthy();
    expect(screen.getByText("1 row was left out: it has no text.")).toBeTruthy();
  });

  it("filters by a cell of the confusion table, and shows all again", async () => {
    const { state } = show(
      <DataPage />,
      { predict: () => Promise.resolve(PREDICTED) },
      { model: "tuned" },
      WITH_DATA,
    );
    fireEvent.click(await screen.findByLabelText("1 of 2 with the label neg were predicted pos"));
    expect(texts()).toEqual(["<b>dull</b>"]);
    expect(state().rows).toBe("label=neg&predicted=pos");
    fireEvent.click(screen.getByText("Show all"));
    expect(texts()).toHaveLength(3);
  });

  it("explains the row that is chosen, and forgets the words of another", async () => {
    const before = { model: "base", token: 3, tokens: [1], rows: "search=fine", data: "d" };
    const { state } = show(<DataPage />, { predict: () => Promise.resolve(PREDICTED) }, before, WITH_DATA);
    fireEvent.click(await screen.findByTitle("Explain this input"));
    expect(state()).toMatchObject({ page: "explain", model: "base", text: "fine", token: null, tokens: [] });
    expect(state().rows).toBe("search=fine&at=0");
  });

  it("reads other columns, and says which were guessed", async () => {
    const columns = vi.fn(() => Promise.resolve({ ...SET, label: "source", guessed: [], rows: 2 }));
    const predict = vi.fn(() => Promise.resolve(PREDICTED));
    show(<DataPage />, { columns, predict }, { model: "columns" }, WITH_DATA);
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

  it("walks from one explained row to the next, and back to the table", async () => {
    const answers = { predict: () => Promise.resolve(PREDICTED) };
    const start = { model: "tuned", data: "d" };
    const page = (
      <>
        <DataPage />
        <RowWalk />
      </>
    );
    const { state } = show(page, answers, start, WITH_DATA);
    fireEvent.click(await screen.findByText("<b>dull</b>"));
    expect(screen.getByText(/row 1 · 1 of 3 by surprise/)).toBeTruthy();
    expect(screen.getByText<HTMLButtonElement>("‹ Previous row").disabled).toBe(true);
    fireEvent.click(screen.getByText("Next row ›"));
    expect(state()).toMatchObject({ page: "explain", model: "tuned", text: "bad", rows: "at=2" });
    fireEvent.click(within(screen.getByLabelText("Rows of the data set")).getByText("reviews.tsv"));
    expect(state().page).toBe("data");
  });

  it("shows why nothing could be predicted, and tries again", async () => {
    const predict = vi.fn(() => Promise.reject(REFUSED));
    show(<DataPage />, { predict }, { model: "odd" }, WITH_DATA);
    expect(await screen.findByText("It cannot be done.")).toBeTruthy();
    fireEvent.click(screen.getByText("Try again"));
    expect(predict).toHaveBeenCalledTimes(2);
    await screen.findByText("It cannot be done.");
  });

  it("takes a file, and refuses one that is too large before it is sent", async () => {
    const upload = vi.fn(() => Promise.resolve(SET));
    const { state } = show(<DataPage />, { upload, predict: () => Promise.resolve(PREDICTED) });
    const field = await screen.findByLabelText("Bring a file");
    fireEvent.change(field, { target: { files: [new File(["x".repeat(1001)], "large.tsv")] } });
    expect(await screen.findByText(/large.tsv has 0.0 MiB; the server takes/)).toBeTruthy();
    expect(upload).not.toHaveBeenCalled();
    fireEvent.change(field, { target: { files: [new File(["text"], "reviews.tsv")] } });
    expect(await screen.findByRole("heading", { name: "reviews.tsv" })).toBeTruthy();
    expect(state().data).toBe("d");
  });
});

describe("a file whose columns nobody can tell", () => {
  const table = { columns: ["id", "body", "stars"], rows: [["7", "a fine film", "positive"]] };
  const fault = {
    code: "bad-examples",
    message: "four.csv has no column of texts.",
    hint: "Choose.",
    see: "",
    table,
  };

  it("is brought, its columns are chosen with a click each, and it is read by them", async () => {
    const upload = vi
      .fn<Server["upload"]>()
      .mockRejectedValueOnce(new SourceError(fault))
      .mockResolvedValueOnce(SET);
    const { state } = show(<DataPage />, { upload, predict: () => Promise.resolve(PREDICTED) });
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

  it("was given at the start: the choice stands in its place, and nothing is predicted before", async () => {
    const set = { ...SET, id: "four", rows: 0, problem: fault };
    const columns = vi.fn<Server["columns"]>().mockResolvedValue({ ...SET, id: "four" });
    const predict = vi.fn<Server["predict"]>().mockResolvedValue(PREDICTED);
    show(<DataPage />, { columns, predict }, {}, { ...SESSION, data: [set] });
    expect(screen.getByText("columns to be chosen")).toBeTruthy();
    expect(predict).not.toHaveBeenCalled();
    fireEvent.click(within(screen.getByRole("group", { name: "body is" })).getByText("Text"));
    fireEvent.click(screen.getByRole("button", { name: "Read the file" }));
    await vi.waitFor(() => expect(predict).toHaveBeenCalled());
    expect(columns).toHaveBeenCalledWith("four", { text: "body", pair: "", label: null }, expect.anything());
  });
});

describe("the choice of a model", () => {
  const choice = (onChange: (id: string) => void) => (
    <ModelChoice label="Model" value="base" onChange={onChange} />
  );
  const OPEN = { ...SESSION, allow_load: true };

  it("has no other models where the server loads none", () => {
    show(choice(vi.fn()), {});
    expect(screen.queryByText("Load another model …")).toBeNull();
  });

  it("loads another one, and says why it could not", async () => {
    const entry = { ...SESSION.models[0], id: "new", name: "org/new" } as ModelEntry;
    const load = vi.fn().mockRejectedValueOnce(REFUSED).mockResolvedValueOnce(entry);
    const onChange = vi.fn();
    show(choice(onChange), { load }, {}, OPEN);
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

describe("the results page", () => {
  it("says which commands make results where there are none", async () => {
    show(<ResultsPage />, {
      results: () => Promise.resolve({ results: [], problems: ["odd.json: no JSON."] }),
    });
    expect(await screen.findByText("whence audit data.tsv --json > audit.json")).toBeTruthy();
    expect(screen.getByText("odd.json: no JSON.")).toBeTruthy();
  });

  it("opens a report in a frame that runs no script", async () => {
    const stored = {
      id: "a b",
      kind: "audit",
      name: "a.json",
      model: "m",
      summary: "It is no.",
      changed: null,
    };
    const { state } = show(<ResultsPage />, {
      results: () => Promise.resolve({ results: [stored], problems: [] }),
    });
    fireEvent.click(await screen.findByText("It is no."));
    expect(state().result).toBe("a b");
    const frame = screen.getByTitle("Audit: a.json");
    expect(frame.getAttribute("sandbox")).toBe("");
    expect(frame.getAttribute("src")).toBe("/api/results/a%20b/page");
  });

  it("opens the first result where none is chosen", async () => {
    const [one, two] = ["a", "b"].map((id) => ({
      id,
      kind: "trust",
      name: `${id}.json`,
      model: "m",
      summary: id,
      changed: null,
    }));
    const results = [one, two].filter((each) => each !== undefined);
    show(<ResultsPage />, { results: () => Promise.resolve({ results, problems: [] }) });
    expect((await screen.findByTitle("Trust card: a.json")).getAttribute("src")).toBe("/api/results/a/page");
    expect(screen.queryByText("Choose a result")).toBeNull();
  });

  it("says so where the link's result is gone, or the server refuses", async () => {
    const stored = { id: "a", kind: "trust", name: "a.json", model: "m", summary: "", changed: null };
    show(
      <ResultsPage />,
      { results: () => Promise.resolve({ results: [stored], problems: [] }) },
      { result: "gone" },
    );
    expect(await screen.findByText("That result is not here")).toBeTruthy();
    cleanup();
    show(<ResultsPage />, {});
    expect(await screen.findByText("It cannot be done.")).toBeTruthy();
  });
});

describe("the help page", () => {
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
    show(<HelpPage />, { help });
    await screen.findByText("rollout");
    expect(screen.getByText("Attention is not importance until tested.")).toBeTruthy();
    for (const { words } of KEYS) expect(screen.getAllByText(words).length).toBeGreaterThan(0);
  });

  it("finds cards by words and family", async () => {
    show(<HelpPage />, { help });
    const search = within(await screen.findByRole("search", { name: "Cards" }));
    fireEvent.change(search.getByLabelText("Find"), { target: { value: "remov" } });
    expect(screen.queryByText("rollout")).toBeNull();
    fireEvent.change(search.getByLabelText("Find"), { target: { value: "" } });
    fireEvent.change(search.getByLabelText("Family"), { target: { value: "method:attention" } });
    expect(screen.queryByText("deletion")).toBeNull();
    expect(screen.getByText("1 card")).toBeTruthy();
  });

  it("opens a card, which then has a link", async () => {
    const { state } = show(<HelpPage />, { help }, { page: "help" });
    fireEvent.click(await screen.findByRole("button", { name: "rollout" }));
    expect(state().card).toBe("method:rollout");
    expect(screen.getByText("often")).toBeTruthy();
    expect(screen.getByText("Link to this card").getAttribute("href")).toBe("#/help?card=method%3Arollout");
  });
});
