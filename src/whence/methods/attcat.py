"""AttCAT (Qiang et al. 2022): hidden state x gradient of each layer, weighted by the attention received."""

from torch import Tensor

from whence.kernels.contract import contract
from whence.methods import Scores, method
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.trace import Trace


@method(
    "attcat",
    family="attention x gradient",
    needs={"attention", "hidden_grad"},
    signed=True,
    signed_when=lambda parameters: not parameters["absolute"],
    unit="weighted",
    presets={
        "attcat": {"layer": None, "absolute": False},
        "attcat_qqp": {"layer": None, "absolute": True},
        "attcat_squad": {"layer": None, "absolute": True},
    },
    cite="Qiang et al. 2022, AttCAT (NeurIPS)",
    formula="s_j = Σ_l a_l[j] · Σ_d h_l[j,d] · dy / dh_l[j,d],  a_l[j] = mean_h mean_i A_l[h,i,j]",
    cost="1 forward, 1 backward",
    misleads_when="the model is causal: the first tokens are seen by all that follow, and win, whatever they say (on "
    "a small language model the right passage of four in 20 of 40 prompts, where generic_attention and attn_lrp find "
    "it in 38 and chance in 13; 69.5 % on the first of ten equal passages; comprehensiveness .12 where chance has "
    ".16); deep layers have mixed the tokens; or attention received says little about use",
)
def attcat(trace: Trace, *, layer: int | None = None, absolute: bool = False) -> Scores:
    """Weigh each layer's hidden state x gradient by the attention the token receives there.

    `absolute` takes the magnitude of the sum, as the authors' QQP and SQuADv2 notebooks do. In an encoder-decoder a
    token goes by the self attention of its own side. Cross attention has its say in the gradient alone: what it looks
    at is the encoder's output, which is the input of none of these layers.
    """

    def part(attn: AttentionLayer, places: slice) -> Tensor:
        real = trace.real[:, places].to(trace.rows.dtype)
        return attn.compute_cat() * contract(attn, real / real.sum(1, keepdim=True))

    scores = trace.sum_layers(layer, part)
    return scores.abs() if absolute else scores
