/** Mount of the workbench in a notebook cell: state synchronised with Python, selection sent to it. */

import { createRoot } from "react-dom/client";

import type { Page } from "../shell/pageContext";
import { type WidgetModel, createKernelSource } from "../source/kernelSource";
import { DEFAULT, type ViewState } from "../state/state";
import { createMemoryStore } from "../state/store";
import { EmbeddedPage } from "./EmbeddedPage";

interface WidgetView {
  readonly model: WidgetModel;
  readonly el: HTMLElement;
}

/** Mount the workbench in a notebook cell; returns the cleanup. */
export function mountWidget({ model, el }: WidgetView): () => void {
  const source = createKernelSource(model);
  const readState = (): Partial<ViewState> => model.get("state") as Partial<ViewState>;
  const store = createMemoryStore({ ...DEFAULT, ...readState() });
  const unsubscribe = store.subscribe(() => {
    model.set("state", store.get());
    model.save_changes();
  });
  const moved = (): void => store.update(readState(), "replace");
  model.on("change:state", moved);

  let lastSent = "";
  const onSelection: Page["onSelection"] = (selection) => {
    const text = JSON.stringify(selection);
    if (text === lastSent) return;
    lastSent = text;
    model.set("selection", selection);
    model.save_changes();
  };

  const mount = document.createElement("div");
  mount.setAttribute("data-lm-suppress-shortcuts", "true"); // else JupyterLab handles single keys as its own shortcuts
  el.append(mount);
  const root = createRoot(mount);
  root.render(<EmbeddedPage source={source} store={store} root={mount} onSelection={onSelection} />);
  return () => {
    root.unmount();
    model.off("change:state", moved);
    unsubscribe();
    source.close();
    mount.remove();
  };
}
