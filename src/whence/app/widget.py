"""What the page asks, answered in the kernel: the same questions and answers as over HTTP, for one or two models."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from whence._version import __version__
from whence.core.errors import BadParameter, UnknownModel, WhenceError, short
from whence.explainer import Explainer, Explanation, Inside
from whence.explainer.kept.told import told
from whence.explainer.offers import offers
from whence.report import fragment
from whence.report.comparison.one import one_fragment
from whence.view import merge
from whence.widget import asked as read
from whence.widget.asked import Asked, target_of, text_of

Progress = Callable[[int, int], None]
_KEPT = 6  # insides; each may hold all maps of an input


class Desk:
    """One model and a text, or two models; what was asked once is not computed again."""

    def __init__(
        self,
        explainer: Explainer,
        explanations: Sequence[Explanation],
        *,
        text: Any = None,
        about: Mapping[str, Any] | None = None,
        other: Explainer | None = None,
    ) -> None:
        self._explainers = _named([explainer] if other is None else [explainer, other])
        self._first = explanations[0] if explanations else None
        self._insides: OrderedDict[tuple[Any, ...], Inside] = OrderedDict()
        self._made: dict[tuple[Any, ...], Explanation] = {}
        self._given_first, self._picture = read.given_first(self._first, text)
        # What was asked about the input beside its target: which place, which answer, which labels.
        self._about = dict(about or {}) or read.recalled(self._first)
        if self._picture is not None:
            self._text, self._pair = "", None
        elif self._first is None:
            self._text, self._pair = text if isinstance(text, tuple) else (text, None)
        else:
            self._text, self._pair = text_of(self._first), self._first.source.pair
        for one in explanations:
            self._made[(*self._key(self._input()), one.method)] = one
        self.payload = merge([one.to_shown() for one in explanations]) if explanations else None

    def state(self) -> dict[str, Any]:
        """Return the view that shows what was given."""
        names = list(self._explainers)
        begun: dict[str, Any] = {
            "model": names[0],
            "text": self._text,
            "pair": self._pair,
            "picture": self._picture,
            **read.as_state(self._about),
        }
        if len(names) > 1:
            begun |= {"page": "compare", "other": names[1]}
        if self._first is not None:
            begun |= {
                "target": target_of(self._first),
                "of": self._first.asked.of,
                "methods": list(dict.fromkeys(key[-1] for key in self._made)),
            }
        return begun

    def static(self) -> str | None:
        """Return what was given as a piece of HTML that needs no script."""
        if len(self._explainers) > 1:
            a, b = self._explainers
            first = self._first
            method = self._explainers[b].default_method() if first is None else first.method
            return one_fragment(self._compare({**self._input(), "a": a, "b": b, "method": method}))
        return None if self.payload is None else fragment(self.payload)

    def __str__(self) -> str:
        text = self._picture or self._text
        return f"{' and '.join(self._explainers)} on {short(text)!r}"

    def answer(self, ask: str, asked: Asked, progress: Progress) -> Any:
        """Answer one question, or raise."""
        match ask:
            case "session":
                return self._session()
            case "explain":
                return self._explain(asked)
            case "trust":
                return self._trust(asked, progress)
            case "compare":
                return self._compare(asked)
            case "flow":
                return self._inside(asked["input"]).flow(**read.flow(asked))
            case "heads":
                return self._inside(asked["input"]).head_statistic(asked["statistic"], progress)
            case "tensors":
                return self._inside(asked["input"]).tensors(asked["keys"])
            case "verify":
                return self._verify(asked, progress)
            case "generate":
                return self._generate(asked, progress)
        raise BadParameter(f"The page asked for {ask!r}, which nobody here can answer.")

    def _input(self) -> dict[str, Any]:
        aim = (
            {}
            if self._first is None
            else {"target": target_of(self._first), "of": self._first.asked.of}
        )
        return {
            "model": next(iter(self._explainers)),
            "text": self._text,
            "pair": self._pair,
            "picture": self._picture,
            **read.as_state(self._about),
            **aim,
        }

    def _key(self, asked: Asked, reader: Explainer | None = None) -> tuple[Any, ...]:
        of = asked.get("of", "logit")
        model = asked.get("model") or next(iter(self._explainers))
        longest = (reader or self._explainer(model)).loaded.max_length
        more = tuple(sorted((name, str(value)) for name, value in read.about(asked).items()))
        text, pair, picture = (asked.get(name) for name in ("text", "pair", "picture"))
        return (model, text, pair, asked.get("target"), of, longest, picture, more)

    def _explainer(self, name: str) -> Explainer:
        if name not in self._explainers:
            raise UnknownModel(
                f"This workbench has no model {name!r}. It has: {', '.join(self._explainers)}."
            )
        return self._explainers[name]

    def _given(self, asked: Asked) -> Any:
        """Return what to encode; an input that came encoded, or as a picture, is what it was."""
        if self._given_first is not None and asked.get("text") == self._text:
            return self._given_first
        return asked["text"] if asked.get("pair") is None else (asked["text"], asked["pair"])

    def _inside(self, asked: Asked, reader: Explainer | None = None) -> Inside:
        """Look inside; `reader` is an explainer of the same model that cuts texts elsewhere."""
        key = self._key(asked, reader)
        if key not in self._insides:
            looked = reader or self._explainer(key[0])
            first = self._first
            if first is not None and key == self._key(self._input()):
                self._insides[key] = looked.inside(first)
            else:
                self._insides[key] = looked.inside(self._given(asked), **self._asks(asked))
            if len(self._insides) > _KEPT:
                self._insides.popitem(last=False)
        self._insides.move_to_end(key)
        return self._insides[key]

    def _explanation(
        self, asked: Asked, method: str, reader: Explainer | None = None
    ) -> Explanation:
        key = (*self._key(asked, reader), method)
        if key not in self._made:
            made = (reader or self._explainer(key[0])).explain(
                self._given(asked), method=method, **self._asks(asked)
            )
            self._made[key] = made[asked.get("entity") or 0] if isinstance(made, list) else made
        return self._made[key]

    def _asks(self, asked: Asked) -> dict[str, Any]:
        """Return what is asked about an input; of the first one also what the page cannot say."""
        same = asked.get("text") == self._text and asked.get("picture") == self._picture
        own = {"at": self._about["at"]} if same and "at" in self._about else {}
        target, of = asked.get("target"), asked.get("of", "logit")
        return {**own, **read.about(asked), "target": target, "of": of, "truncate": True}

    def _explain(self, asked: Asked) -> dict[str, Any]:
        given, found = asked["input"], []
        failed: dict[str, WhenceError] = {}
        for method in asked["methods"]:
            try:
                found.append(self._explanation(given, method))
            except WhenceError as error:
                failed[method] = error
        if not found:
            raise next(iter(failed.values()))
        said = {method: str(error) for method, error in failed.items()}
        return told(found, said, self._inside(given).warnings())

    def _trust(self, asked: Asked, progress: Progress) -> dict[str, Any]:
        given = asked["input"]
        key = self._key(given)
        card = self._explainer(key[0]).trust(
            self._given(given),
            method=list(asked["methods"]),
            budget=asked.get("budget"),
            progress=progress,
            **self._asks(given),
        )
        return {"kind": "trust", **card.to_dict()}

    def _verify(self, asked: Asked, progress: Progress) -> dict[str, Any]:
        return self._inside(asked["input"]).verify(
            [(layer, head, source, to) for layer, head, source, to in asked["edges"]],
            draws=asked.get("draws", 30),
            seed=asked.get("seed", 0),
            progress=progress,
        )

    def _generate(self, asked: Asked, progress: Progress) -> dict[str, Any]:
        given = asked["input"]
        made = self._explainer(self._key(given)[0]).generate(
            self._given(given),
            asked["tokens"],
            method=asked["method"],
            granularity=asked["granularity"],
            progress=progress,
        )
        return made.to_dict()

    def _compare(self, asked: Asked) -> dict[str, Any]:
        from whence.comparison import compared
        from whence.comparison.aim import aim, aims_apart, tried
        from whence.comparison.match import of_one_length

        inputs = [{**asked, "model": asked[side]} for side in ("a", "b")]
        readers = of_one_length(*(self._explainer(one["model"]) for one in inputs))
        one, other = (
            self._inside(given, reader) for given, reader in zip(inputs, readers, strict=True)
        )
        if asked.get("target") is None and (label := aim(one, other)) is not None:
            inputs[0]["target"] = label
            one = self._inside(inputs[0], readers[0])
        method = asked.get("method")
        warnings = [] if method is None else aims_apart(one, other)
        explanations = [
            None
            if method is None or not reader.labels
            else tried(
                reader.loaded.name,
                method,
                partial(self._explanation, given, method, reader),
                warnings,
            )
            for given, reader in zip(inputs, readers, strict=True)
        ]
        found = compared(one, other, **read.compared(asked), explanations=tuple(explanations))
        return {**found, "warnings": [*found["warnings"], *warnings]}

    def _session(self) -> dict[str, Any]:
        names = list(self._explainers)
        return {
            "version": __version__,
            "started": "kernel",
            "models": [self._entry(name) for name in names],
            "compare": names if len(names) > 1 else None,
            "data": [],
            "samples": [{"text": self._text, "pair": self._pair}],
            "allow_load": False,
            "limits": {
                "characters": 50_000,
                "upload": 0,
                "seconds": 0,
                "edges": 5000,
                "generated": 200,
            },
        }

    def _entry(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "state": "ready",
            "name": name,
            "samples": [],  # the session has the input that the widget was opened with
            **offers(self._explainers[name]),
            "error": None,
        }


def _named(explainers: Sequence[Explainer]) -> dict[str, Explainer]:
    """Name models as they are named; a second of the same name gets a number."""
    named: dict[str, Explainer] = {}
    for explainer in explainers:
        name = explainer.loaded.name
        named[f"{name} (2)" if name in named else name] = explainer
    return named
