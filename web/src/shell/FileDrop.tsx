/** A place for a file: dropped, or chosen by a button that the keyboard reaches. */

import { type DragEvent, useEffect, useId, useRef, useState } from "react";

import type { Fault } from "../api/types";
import type { Asking } from "../source/source";
import { FaultNote } from "./FaultNote";
import { faultOf } from "./useAsked";

interface Props {
  readonly label: string;
  readonly hint: string;
  readonly accept: string;
  readonly most: number; // bytes
  readonly instead?: string; // what to do with a file that is larger
  readonly take: (file: File, asking: Asking) => Promise<void>;
}

export function DropFile({ label, hint, accept, most, instead = LESS, take }: Props) {
  const id = useId();
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState<string | null>(null);
  const [fault, setFault] = useState<Fault | null>(null);
  const control = useRef<AbortController | null>(null);
  useEffect(() => () => control.current?.abort(), []);

  const bring = (file: File | undefined): void => {
    if (file === undefined || busy !== null) return;
    if (file.size > most) {
      setFault(tooLarge(file, most, instead));
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
        setFault(named(faultOf(error), file.name));
      },
    );
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    bring(event.dataTransfer.files[0]);
  };

  return (
    // Dropping is for the mouse; the button in it does the same for everybody.
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
          bring(event.target.files?.[0]);
          event.target.value = ""; // so that the same file can be brought again
        }}
      />
      <p className="dim">or drop it here. {hint}</p>
      {fault && <FaultNote fault={fault} />}
    </div>
  );
}

/** A refusal that says which file it is about. */
function named(fault: Fault, name: string): Fault {
  return fault.message.includes(name) ? fault : { ...fault, message: `${name}: ${fault.message}` };
}

const LESS = "Bring a part of it, or name the file with --data when you start the server.";

function tooLarge(file: File, most: number, instead: string): Fault {
  return {
    code: "too-large",
    message: `${file.name} has ${megabytes(file.size)}; the server takes ${megabytes(most)}.`,
    hint: instead,
    see: "",
  };
}

function megabytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
