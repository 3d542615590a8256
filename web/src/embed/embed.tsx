/** Entry of the embedded bundle: an offline file with its data in the document, or a notebook cell. */

import { readFileData } from "../source/fileData";
import { mountFile } from "./offlineFile";
import { mountWidget } from "./notebookWidget";
import "../shell/style.css";
import "./embed.css";

const fileData = readFileData(document);
if (fileData !== null) mountFile(document, fileData);

export default { render: mountWidget };
