/** A notebook's cell: the state goes both ways, the selection to Python, questions to the kernel. */

import { createRoot } from "react-dom/client";

import type { Page } from "../shell/context";
import { type WidgetModel, kernelSource } from "../source/kernel";
import { DEFAULT, type ViewState } from "../state/state";
import { memoryStore } from "../state/store";
import { Embedded } from "./Embedded";

interface Rendered {
  readonly model: WidgetModel;
  readonly el: HTMLElement;
}

export function showWidget({ model, el }: Rendered): () => void {
  const source = kernelSource(model);
  const given = (): Partial<ViewState> => model.get("state") as Partial<ViewState>;
  const store = memoryStore({ ...DEFAULT, ...given() });
  const unsubscribe = store.subscribe(() => {
    model.set("state", store.get());
    model.save_changes();
  });
  const moved = (): void => store.update(given(), "replace");
  model.on("change:state", moved);

  let told = "";
  const onSelection: Page["onSelection"] = (selection) => {
    const text = JSON.stringify(selection);
    if (text === told) return;
    told = text;
    model.set("selection", selection);
    model.save_changes();
  };

  const mount = document.createElement("div");
  mount.setAttribute("data-lm-suppress-shortcuts", "true"); // else JupyterLab takes single keys for its own
  el.append(mount);
  const root = createRoot(mount);
  root.render(<Embedded source={source} store={store} root={mount} onSelection={onSelection} />);
  return () => {
    root.unmount();
    model.off("change:state", moved);
    unsubscribe();
    source.close();
    mount.remove();
  };
}
