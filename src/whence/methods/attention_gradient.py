"""AttGrads: attention times its gradient in the read row, summed over layers (as drawn by Qiang et al. 2022)."""

import torch

from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "attention_gradient",
    family="attention x gradient",
    needs={"attention", "attention_grad"},
    signed=True,
    unit="relative",  # a mean over heads: a first-order effect would be their sum
    presets={"attcat_figure": {"layer": None}},
    cite="Qiang et al. 2022, AttCAT (NeurIPS); related to Grad-SAM, Barkan et al. 2021, arXiv:2204.11073",
    formula="s_j = Σ_l mean_h A_l[h,i,j] · dy / dA_l[h,i,j],  i the row that the prediction reads",
    cost="1 forward, 1 backward",
    misleads_when="lower layers count as if the row that is read had already gathered there what it reads at the top",
)
def attention_gradient(trace: Trace, *, layer: int | None = None) -> Scores:
    """Multiply attention with its gradient in the row that is read, and add up the layers (or read one).

    Of an encoder-decoder these are the decoder's layers: cross attention for the source, self attention for its own
    tokens. The authors' code ships something else under the name AttGrads: attention_gradcam, preset attcat.
    """
    return torch.stack(trace.read([trace.rows], layer, "gradient_x_attention")).sum(0)[0]
