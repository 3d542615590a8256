"""Conversations: chat messages made one text by the template of the tokenizer."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.core.errors import BadEncoding


def is_chat(given: Any) -> bool:
    """Say whether `given` is a list of chat messages: mappings with a role and a content."""
    return (
        isinstance(given, Sequence)
        and not isinstance(given, str | bytes)
        and len(given) > 0
        and all(isinstance(one, Mapping) and {"role", "content"} <= one.keys() for one in given)
    )


def chat_text(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> str:
    """Return a conversation as the prompt that the model was trained on, up to where it is to go on.

    A last message of the assistant is left as it is: nothing is to follow it.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise BadEncoding(
            f"The input is a list of {len(messages)} chat messages, and the tokenizer has no chat template to make "
            "one text of them. Give a text, such as the content of one message: messages[-1]['content']."
        )
    try:
        text = tokenizer.apply_chat_template(
            list(messages),
            tokenize=False,
            add_generation_prompt=messages[-1]["role"] != "assistant",
        )
    except (
        Exception
    ) as error:  # a template is a program of its author, and may raise whatever it likes
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadEncoding(
            f"The chat template of the tokenizer does not take these {len(messages)} messages: {why}. Give other "
            "messages, or a text."
        ) from error
    return str(text)
