/** A picture to explain: brought as a file, or drawn by the server. */

import { DropFile } from "../shell/DropFile";
import { isServer, usePage } from "../shell/context";

interface Props {
  readonly picture: string | null;
  readonly draws: boolean; // whether the server can draw one for this model
  readonly most: number; // bytes
  readonly onPicture: (id: string) => void;
}

export function PictureField({ picture, draws, most, onPicture }: Props) {
  const { source } = usePage();
  return (
    <div className="picture-field">
      {isServer(source) && (
        <DropFile
          label="Bring a picture"
          hint="PNG, JPEG, WebP, GIF or BMP. It stays on the machine the app runs on."
          accept="image/png,image/jpeg,image/webp,image/gif,image/bmp"
          most={most}
          instead="Make it smaller: models see a few hundred pixels across."
          take={async (file, asking) => {
            const { id } = await source.bring(file, asking);
            onPicture(id);
          }}
        />
      )}
      {draws && (
        <button type="button" onClick={() => onPicture(nextDrawing(picture))}>
          Draw one
        </button>
      )}
      {picture !== null && <span className="dim">{picture}</span>}
    </div>
  );
}

/** The drawing after this one: numbers name them, so a link shows the same one to everybody. */
export function nextDrawing(picture: string | null): string {
  const [, number] = /^shapes:(\d{1,9})$/.exec(picture ?? "") ?? [];
  return `shapes:${number === undefined ? 0 : (Number(number) + 1) % 1e9}`;
}
