/** The page's entry. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { http } from "../source/http";
import { addressStore } from "../state/store";
import { App } from "./App";
import "./frame.css";
import "./style.css";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App source={http()} store={addressStore(window)} />
    </StrictMode>,
  );
}
