"""Method parameters with few samples and steps, for tests where accuracy does not matter."""

from typing import Any

# Kernel SHAP needs two samples for each token at least; the longest inputs of the zoo's models have 64 and some.
FEW: dict[str, dict[str, Any]] = {
    "gradient_shap": {"samples": 8},
    "integrated_gradients": {"steps": 8},
    "kernel_shap": {"samples": 160},
    "lime": {"samples": 40},
    "smoothgrad": {"samples": 8},
}
