"""Remote code: what a model's author wrote to be run with it. whence runs none, and asks nobody whether it may."""

from typing import Any

from whence.core.errors import UnknownModel, UnsafeWeights, short


def refuse_code(error: BaseException, name: str) -> None:
    """Say so where transformers fails for want of consent to run an author's code."""
    if "trust_remote_code" in str(error):
        raise UnsafeWeights(
            f"The model {name!r} wants to run code of its own, which whence never does. "
            "Load it yourself and pass the object: whence.load(model, tokenizer=...)."
        ) from None


def refuse_kernels(values: Any, name: str) -> None:
    """Refuse a configuration that names a repository of the Hub for its attention: compiled code would be run."""
    if not isinstance(values, dict):
        return
    for key, value in values.items():
        if str(key).endswith("_implementation") and "/" in str(value):
            raise UnsafeWeights(
                f"The configuration of {name!r} says {key}={short(str(value))!r}: code from the Hub, which whence "
                f"never runs. Remove {key} from config.json."
            )
        refuse_kernels(value, name)


def forget_code(config: Any) -> None:
    """Remove what the parts of a configuration say about code of their author.

    The parts of a composed model are made without asking us: where transformers has no class for one of them, it
    would ask on standard input whether to run the author's, and take a line of the data for an answer.
    """
    for part in vars(config).values():
        _forget(part)


def _forget(part: Any) -> None:
    is_config = hasattr(part, "model_type") and hasattr(part, "__dict__")
    inner = vars(part) if is_config else part
    if isinstance(inner, dict):
        inner.pop("auto_map", None)
        for value in inner.values():
            _forget(value)


def model_class(config: Any, name: str) -> Any:
    """Return the class that a configuration names: a model of transformers or of ours, and nothing else.

    Only what the checkpoint says it is: a head made up on the spot would be explained as if it were trained.
    """
    import transformers

    from whence.models import attentive

    named = getattr(config, "architectures", None)
    if named is None or named == []:
        # Nothing was said about a head, so there is none.
        kind = transformers.MODEL_MAPPING.get(type(config), None)
        said = "no class"
    elif isinstance(named, list) and isinstance(named[0], str):
        kind = getattr(transformers, named[0], None) or getattr(attentive, named[0], None)
        said = f"the class {short(named[0])!r}"
    else:
        raise UnknownModel(
            f"The configuration of {name!r} has architectures={short(repr(named))}. It is a list with the name of a "
            "class, such as ['BertForSequenceClassification']. Correct config.json."
        )
    kind = kind[0] if isinstance(kind, tuple) else kind
    # Auto... are no models: they choose one, if need be among the author's. ...PreTrainedModel have no layers.
    is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
    if not is_model or kind.__name__.lower().endswith("pretrainedmodel"):
        raise UnknownModel(
            f"The configuration of {name!r} names {said} (architectures, of a {config.model_type!r}), and "
            "transformers has no such model. Correct config.json; or, if the class is your own, load the model "
            "yourself and pass the object: whence.load(model, tokenizer=...)."
        )
    return kind
