"""Cost of explaining a generated answer, as a ratio to the bare forward + backward of the same prefixes.

    python bench/generation.py [--threads N] [--repeats N] [--json FILE]

The bare pass: generate once (greedy, keys and values kept), then every prefix of the answer alone, weights frozen,
SDPA, gradient of the generated token's logit with respect to the embeddings. Explaining starts from text; generating,
batching, the method and the result are in it. Runs are interleaved and medians compared; ratios are the result.
Forward passes are counted by a hook on the model, not by what whence says of itself.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from explain import ROOT, collect_provenance, measure_medians

import whence
from whence.tracing.ask import count_forwards

STORIES = ROOT.parent / "shared" / "models" / "stories260K"
PROMPT = (
    "Once upon a time, there was a little girl named Lily. She had a big red ball and a small blue car. One day, she "
    "went to the park with her mom. At the park, she saw a boy named Tim. Tim was sad because he had no toys. "
)
METHODS = ("grad_x_input", "attcat", "generic_attention")


def build_wide_model(tokenizer: Any) -> Any:
    """Build a model large enough for its own work to count: random weights, GPT-2's layout."""
    config = hf.GPT2Config(
        vocab_size=512,
        n_embd=256,
        n_layer=4,
        n_head=4,
        n_positions=512,
        bos_token_id=1,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    return whence.load(hf.GPT2LMHeadModel(config), tokenizer=tokenizer)


def build_bare_pass(
    explainer: Any, prompt: str, tokens: int, *, together: bool
) -> Callable[[], None]:
    """Return the floor: generate, then one forward and one backward for each prefix, alone or all in one batch."""
    model = explainer.model
    ids = torch.tensor([explainer.tokenizer(prompt)["input_ids"]])
    table = model.get_input_embeddings()

    def compute_gradient(
        rows: torch.Tensor, mask: torch.Tensor, lasts: torch.Tensor, said: torch.Tensor
    ) -> None:
        embedded = table(rows).detach().requires_grad_()
        logits = model(inputs_embeds=embedded, attention_mask=mask, use_cache=False).logits
        torch.autograd.grad(logits[torch.arange(len(rows)), lasts, said].sum(), embedded)

    def run() -> None:
        for weight in model.parameters():
            weight.requires_grad_(False)
        with torch.inference_mode():
            whole = model.generate(ids, max_new_tokens=tokens, do_sample=False, pad_token_id=0)
        whole = whole[0].clone()
        start = ids.shape[1]
        ends = torch.arange(start, len(whole))
        if together:
            rows = whole[:-1].expand(len(ends), -1)
            mask = (torch.arange(len(whole) - 1) < ends[:, None]).long()
            compute_gradient(rows, mask, ends - 1, whole[ends])
            return
        for end in ends.tolist():
            rows = whole[None, :end]
            compute_gradient(
                rows, torch.ones_like(rows), torch.tensor([end - 1]), whole[end : end + 1]
            )

    return run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    stories = whence.load(STORIES)
    lines = []
    for name, explainer in (
        ("stories260K", stories),
        ("gpt2 256 x 4, random", build_wide_model(stories.tokenizer)),
    ):
        for repeat in (1, 3):
            prompt = (PROMPT * repeat).strip()
            lines += measure(name, explainer, prompt, options.tokens, options.repeats)
    for line in lines:
        print(json.dumps(line))
    if options.json:
        facts = collect_provenance(options.threads)
        with options.json.open("a") as stream:
            stream.writelines(json.dumps({**line, **facts}) + "\n" for line in lines)


def measure(
    name: str, explainer: Any, prompt: str, tokens: int, repeats: int
) -> list[dict[str, Any]]:
    """Time every method against the floor, one prefix after the other and all in one batch."""
    cases = {
        "bare, one by one": build_bare_pass(explainer, prompt, tokens, together=False),
        "bare, in one batch": build_bare_pass(explainer, prompt, tokens, together=True),
        **{m: lambda m=m: explainer.generate(prompt, tokens, method=m) for m in METHODS},
    }
    seconds = measure_medians(cases, repeats)
    found = []
    for method in METHODS:
        with count_forwards(explainer.model) as runs:
            made = explainer.generate(prompt, tokens, method=method)
        said = len(made.output_tokens)
        found.append(
            {
                "model": name,
                "prompt": len(made.prompt_tokens),
                "tokens": said,
                "method": method,
                "forwards_per_token": (runs.forward - said) / said,  # less the steps of generating
                "backwards_per_token": made.payload["passes"]["backward"] / said,
                "ratio": round(seconds[method] / seconds["bare, one by one"], 3),
                "ratio_to_one_batch": round(seconds[method] / seconds["bare, in one batch"], 3),
                "seconds": round(seconds[method], 4),
            }
        )
    return found


if __name__ == "__main__":
    main()
