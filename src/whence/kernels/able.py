"""Whether small kernels of Triton, number by number, can run on some tensors."""

from torch import Tensor

from whence.kernels.choice import chosen, has_triton


def fuses_pointwise(*tensors: Tensor) -> bool:
    """Say whether a kernel takes tensors of one shape: on CUDA, where Triton is, unless tiles were asked for."""
    first = tensors[0]
    return (
        first.is_cuda
        and first.numel() > 0
        and all(one.shape == first.shape for one in tensors[1:])
        and has_triton()
        and chosen() != "tiled"
    )
