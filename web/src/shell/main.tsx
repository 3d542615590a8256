/** Entry of the web app: renders App with the HTTP source and the address store. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { createHttpSource } from "../source/httpSource";
import { createAddressStore } from "../state/store";
import { App } from "./App";
import "./frame.css";
import "./style.css";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App source={createHttpSource()} store={createAddressStore(window)} />
    </StrictMode>,
  );
}
