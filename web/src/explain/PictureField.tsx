/** Field for a picture: an uploaded file, or a drawing of the server's. */

import { FileDrop } from "../shell/FileDrop";
import { isServer, usePage } from "../shell/pageContext";

interface Props {
  readonly picture: string | null;
  readonly draws: boolean; // whether the server can draw one for this model
  readonly most: number; // bytes
  readonly onPicture: (id: string) => void;
}

/** Choose the picture to explain. */
export function PictureField({ picture, draws, most, onPicture }: Props) {
  const { source } = usePage();
  return (
    <div className="picture-field">
      {isServer(source) && (
        <FileDrop
          label="Bring a picture"
          hint="PNG, JPEG, WebP, GIF or BMP. It stays on the machine the app runs on."
          accept="image/png,image/jpeg,image/webp,image/gif,image/bmp"
          most={most}
          instead="Make it smaller: models see a few hundred pixels across."
          take={async (file, options) => {
            const { id } = await source.uploadPicture(file, options);
            onPicture(id);
          }}
        />
      )}
      {draws && (
        <button type="button" onClick={() => onPicture(nameNextDrawing(picture))}>
          Draw one
        </button>
      )}
      {picture !== null && <span className="dim">{picture}</span>}
    </div>
  );
}

/** Name the next drawing. Drawings are numbered, so that a link shows the same one everywhere. */
export function nameNextDrawing(picture: string | null): string {
  const [, number] = /^shapes:(\d{1,9})$/.exec(picture ?? "") ?? [];
  return `shapes:${number === undefined ? 0 : (Number(number) + 1) % 1e9}`;
}
