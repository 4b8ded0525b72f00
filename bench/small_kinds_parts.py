"""What small_kinds.py builds its models of."""

import torch
from torch import nn


def seq(*layers):
    return nn.Sequential(*layers)


class Lambda(nn.Module):
    """A function over modules: what most of these are."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function, self.parts = function, nn.ModuleDict({k: v for k, v in parts.items() if isinstance(v, nn.Module)})
        for k, v in parts.items():
            if isinstance(v, torch.Tensor):
                self.register_buffer(k, v)
        self.given = [k for k, v in parts.items() if isinstance(v, torch.Tensor)]

    def forward(self, *inputs):
        return self.function(*inputs, **self.parts, **{k: getattr(self, k) for k in self.given})
