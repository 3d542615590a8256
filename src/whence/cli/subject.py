"""What is to be explained: a text, a pair of texts, a picture, or a text held against a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli import asking
from whence.core.errors import BadParameter

if TYPE_CHECKING:
    from whence.explainer import Explainer

Text = Annotated[
    str | None,
    typer.Argument(
        show_default=False,
        help="The text to explain; - reads it from standard input. Put -- before a text that starts with a dash.",
    ),
]
Image = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A picture to explain instead of a text; shapes:N is number N of those that whence draws itself.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        show_default="reviews, for a picture shapes",
        help="A built-in model (whence list models), a folder, or a Hugging Face id.",
    ),
]

# What stands in for patches that are taken away, while the model is not loaded: see asking.ANY_FILLERS.
_ANY_FILLS = {"black": 0, "mean": 0, "blur": 0}


@dataclass(frozen=True)
class Subject:
    """What was given, and the model that is asked about it."""

    text: str | None
    pair: str | None
    image: str | None
    model: str

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture that is explained, and not a text, even one beside a picture."""
        return self.image is not None and self.text is None

    @property
    def fillers(self) -> dict[str, int]:
        """Stand-ins for what a model has, as long as it is not loaded."""
        return _ANY_FILLS if self.is_picture else asking.ANY_FILLERS

    def opened(self) -> dict[str, Any]:
        """Read the picture, if there is one: what is wrong with it is said before a model is loaded."""
        if self.image is None:
            return {}
        from whence.data.sets.pictures import Stored
        from whence.data.vision.image import name_of, opened

        return {"image": Stored(opened(self.image), name_of(self.image))}

    def check_methods(self, names: list[str] | None, given: dict[str, str]) -> None:
        """Refuse methods and parameters that cannot be before a model is loaded."""
        from whence.explainer.request import check_default, requests

        if names:
            requests(names, given, self.fillers, from_text=True)
        elif not self.is_picture:  # of a picture, the default is not known before the model is
            check_default(given, self.fillers)

    def asked(
        self,
        explainer: "Explainer",
        picture: dict[str, Any],
        names: list[str] | None,
        given: dict[str, str],
    ) -> tuple[Any, dict[str, Any]]:
        """Return the input, and by name what else `explain` and `trust` take: methods, parameters, a picture."""
        from whence.explainer.request import requests

        self._check(explainer)
        own, beside = self._given(picture)
        methods = names or [explainer.default_method(**beside)]
        asked = requests(methods, given, explainer.fillers, from_text=True)
        return own, {
            "method": [request.name for request in asked],
            "params": {request.name: request.params for request in asked},
            **beside,
        }

    def _check(self, explainer: "Explainer") -> None:
        """Refuse a picture beside a text where the model takes only one of them."""
        loaded = explainer.loaded
        if self.text is not None and self.image is not None and loaded.task != "similarity":
            raise BadParameter(
                f"Give a text or --image, not both: {loaded.name!r} does not hold pictures against texts, as models "
                "such as CLIP do."
            )

    def _given(self, picture: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the input, and what stands beside it."""
        if self.text is None:
            return picture["image"], {}
        return (self.text if self.pair is None else (self.text, self.pair)), picture


def subject(text: str | None, pair: str | None, image: str | None, model: str | None) -> Subject:
    """Find out what was given; each kind of input has a built-in model of its own."""
    if text is None and image is None:
        raise BadParameter(
            "There is nothing to explain. Give a text, or a picture: whence explain --image FILE."
        )
    if text is None and pair is not None:
        raise BadParameter("--pair is the second of two texts. Give the first, or leave it out.")
    if text is not None and image is not None and model is None:
        raise BadParameter(
            "Give a text or --image, not both. To hold a text against a picture, name a model that does: --model."
        )
    own = model or ("reviews" if image is None else "shapes")
    return Subject(None if text is None else asking.given_text(text), pair, image, own)


def check_picture_file(path: Path | None, subject: Subject) -> None:
    """Find out before the work that a sheet of maps cannot be written as asked."""
    from whence.core.io import check_writable

    if path is None:
        return
    if not subject.is_picture:
        raise BadParameter(
            f"--out writes maps over a picture, and a text is explained here. Got {str(path)!r}; --html FILE writes "
            "a page."
        )
    if path.suffix.lower() != ".png":
        raise BadParameter(
            f"--out writes a PNG file. Got {str(path)!r}; give a name that ends in .png."
        )
    check_writable(path)
