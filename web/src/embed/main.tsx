/** The page outside of a server: in an offline file, where it finds its data in the document, and in a notebook's cell. */

import { payloadOf } from "../source/payload";
import { showFile } from "./file";
import { showWidget } from "./widget";
import "../shell/style.css";
import "./embed.css";

const payload = payloadOf(document);
if (payload !== null) showFile(document, payload);

export default { render: showWidget };
