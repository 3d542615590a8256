/** Drop area and button to upload one file; refuses files that are too large. */

import { type DragEvent, useEffect, useId, useRef, useState } from "react";

import type { Fault } from "../api/types";
import type { RequestOptions } from "../source/source";
import { FaultNote } from "./FaultNote";
import { toFault } from "./useRequest";

interface Props {
  readonly label: string;
  readonly hint: string;
  readonly accept: string;
  readonly most: number; // bytes
  readonly instead?: string; // advice for a larger file
  readonly take: (file: File, options: RequestOptions) => Promise<void>;
}

/** Accept one file by drop or by button. */
export function FileDrop({ label, hint, accept, most, instead = SMALLER_FILE_HINT, take }: Props) {
  const id = useId();
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState<string | null>(null);
  const [fault, setFault] = useState<Fault | null>(null);
  const control = useRef<AbortController | null>(null);
  useEffect(() => () => control.current?.abort(), []);

  const upload = (file: File | undefined): void => {
    if (file === undefined || busy !== null) return;
    if (file.size > most) {
      setFault(buildSizeFault(file, most, instead));
      return;
    }
    const mine = new AbortController();
    control.current = mine;
    setFault(null);
    setBusy(file.name);
    take(file, { signal: mine.signal }).then(
      () => setBusy(null),
      (error: unknown) => {
        if (mine.signal.aborted) return;
        setBusy(null);
        setFault(addFileName(toFault(error), file.name));
      },
    );
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    upload(event.dataTransfer.files[0]);
  };

  return (
    // Dropping needs a mouse; the button inside does the same by keyboard.
    // eslint-disable-next-line jsx-a11y/no-static-element-interactions
    <div
      className={over ? "drop over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <label htmlFor={id} className="button">
        {busy === null ? label : `Reading ${busy} …`}
      </label>
      <input
        id={id}
        type="file"
        className="unseen"
        accept={accept}
        disabled={busy !== null}
        onChange={(event) => {
          upload(event.target.files?.[0]);
          event.target.value = ""; // so that the same file can be chosen again
        }}
      />
      <p className="dim">or drop it here. {hint}</p>
      {fault && <FaultNote fault={fault} />}
    </div>
  );
}

/** Add the file's name to a refusal. */
function addFileName(fault: Fault, name: string): Fault {
  return fault.message.includes(name) ? fault : { ...fault, message: `${name}: ${fault.message}` };
}

const SMALLER_FILE_HINT = "Bring a part of it, or name the file with --data when you start the server.";

function buildSizeFault(file: File, most: number, instead: string): Fault {
  return {
    code: "too-large",
    message: `${file.name} has ${formatMegabytes(file.size)}; the server takes ${formatMegabytes(most)}.`,
    hint: instead,
    see: "",
  };
}

function formatMegabytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
