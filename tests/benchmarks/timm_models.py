"""timm: eager PyTorch, an AdamW step, autocast for bfloat16."""

import importlib
import re

import torch


def _import_torchvision():
    """timm imports it, though its models need none of it.

    One that was built for another PyTorch (CUDA's beside the CPU build) stops at each of its
    operators that is missing: each is declared, without a body, until the import succeeds.
    """
    while True:
        try:
            return importlib.import_module("torchvision")
        except RuntimeError as error:
            missing = re.search(r"operator (torchvision::\w+) does not exist", str(error))
            if missing is None:
                raise
            torch.library.define(missing[1], "(Tensor x) -> Tensor")


def make_steps(contestant, size, precision):
    """Task to a function that prepares it; each gives a step that ends when its result is there."""
    _import_torchvision()
    from timm.models import VisionTransformer

    model = VisionTransformer(
        img_size=size.image_size,
        patch_size=size.patch_size,
        in_chans=size.num_channels,
        num_classes=size.num_classes,
        embed_dim=size.hidden_dim,
        depth=size.num_layers,
        num_heads=size.num_heads,
        mlp_ratio=size.mlp_dim / size.hidden_dim,
    )
    pixels = torch.rand(size.batch_size, size.num_channels, size.image_size, size.image_size)
    labels = torch.randint(0, size.num_classes, (size.batch_size,))
    half = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")

    def infer():
        model.eval()

        def step():
            with torch.inference_mode(), half:
                model(pixels).float().numpy()

        return step

    def train():
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)

        def step():
            optimizer.zero_grad()
            with half:
                loss = torch.nn.functional.cross_entropy(model(pixels), labels)
            loss.backward()
            optimizer.step()
            loss.item()

        return step

    return {"infer": infer, "train": train}
