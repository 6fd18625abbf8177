"""The most that PyTorch's matrix product reaches on this machine."""

import torch

SIDE = 2048


def make_steps(contestant, size, precision):
    """Task (a precision) to a function that prepares one product of two square matrices."""

    def preparation(dtype):
        def prepare():
            a = torch.randn(SIDE, SIDE).to(getattr(torch, dtype))

            def step():
                with torch.inference_mode():
                    (a @ a)[0, 0].item()

            return step

        return prepare

    return {dtype: preparation(dtype) for dtype in ("float32", "bfloat16")}
