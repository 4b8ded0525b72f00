"""Diffusion models."""
import torch
import torch.nn.functional as F
from torch import nn

from torch_modules.attention import attend, heads


class DiTBlock(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.n = n
        self.n1, self.n2 = nn.LayerNorm(width, 1e-6, bias=False), nn.LayerNorm(width, 1e-6, bias=False)
        self.qkv, self.p, self.ada = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 6 * width)
        self.f1, self.f2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, c):
        shift, scale, gate, shift2, scale2, gate2 = self.ada(F.silu(c)).unsqueeze(1).chunk(6, -1)
        q, k, v = self.qkv(self.n1(x) * (1 + scale) + shift).unflatten(-1, (3, self.n, -1)).permute(2, 0, 3, 1, 4)
        x = x + gate * self.p(attend(q, k, v))
        return x + gate2 * self.f2(F.gelu(self.f1(self.n2(x) * (1 + scale2) + shift2), approximate="tanh"))


class DiTXL2(nn.Module):
    def __init__(self, depth=28, width=1152, n=16):
        super().__init__()
        self.pe, self.n, self.o = nn.Conv2d(4, width, 2, 2), nn.LayerNorm(width), nn.Linear(width, 32)
        self.b = nn.ModuleList(DiTBlock(width, n) for _ in range(depth))

    def forward(self, x, c):
        x = self.pe(x).flatten(2).transpose(1, 2)
        for block in self.b:
            x = block(x, c)
        return self.o(self.n(x))


class DiffusionResidual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.n1, self.c1, self.t = nn.GroupNorm(32, cin), nn.Conv2d(cin, cout, 3, padding=1), nn.Linear(1280, cout)
        self.n2, self.c2 = nn.GroupNorm(32, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.s = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, time):
        y = self.c1(F.silu(self.n1(x))) + self.t(F.silu(time))[:, :, None, None]
        return self.s(x) + self.c2(F.silu(self.n2(y)))


class CrossAttention(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.k, self.v = nn.Linear(context, width, bias=False), nn.Linear(context, width, bias=False)

    def forward(self, x, context):
        return self.o(attend(heads(self.q(x), 8), heads(self.k(context), 8), heads(self.v(context), 8)))


class DiffusionAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.n, self.i, self.o = nn.GroupNorm(32, width), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(width) for _ in range(3))
        self.a, self.x = CrossAttention(width, width), CrossAttention(width, 768)
        self.g, self.d = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x, context):
        y = self.i(self.n(x)).flatten(2).transpose(1, 2)
        h = self.n1(y)
        y = y + self.a(h, h)
        y = y + self.x(self.n2(y), context)
        value, gate = self.g(self.n3(y)).chunk(2, -1)
        y = y + self.d(value * F.gelu(gate))
        return x + self.o(y.transpose(1, 2).unflatten(-1, x.shape[2:]))


class SD15UNet(nn.Module):
    def __init__(self, widths=(320, 640, 1280, 1280)):
        super().__init__()
        self.t1, self.t2 = nn.Linear(320, 1280), nn.Linear(1280, 1280)
        self.register_buffer("frequencies", torch.empty(160))
        self.i = nn.Conv2d(4, widths[0], 3, padding=1)
        self.dn, self.ds, self.up, self.us = nn.ModuleList(), nn.ModuleList(), nn.ModuleList(), nn.ModuleList()

        def block(cin, width, attention):
            return nn.ModuleList([DiffusionResidual(cin, width), *([DiffusionAttention(width)] if attention else [])])

        x, skips = widths[0], [widths[0]]
        for level, width in enumerate(widths):
            self.dn.append(nn.ModuleList())
            for _ in range(2):
                self.dn[-1].append(block(x, width, level < 3))
                x = width
                skips.append(x)
            if level < 3:
                self.ds.append(nn.Conv2d(x, x, 3, 2, 1))
                skips.append(x)
        self.m1, self.ma, self.m2 = DiffusionResidual(x, x), DiffusionAttention(x), DiffusionResidual(x, x)
        for level, width in enumerate(widths[::-1]):
            self.up.append(nn.ModuleList())
            for _ in range(3):
                self.up[-1].append(block(x + skips.pop(), width, level > 0))
                x = width
            if level < 3:
                self.us.append(nn.Conv2d(x, x, 3, padding=1))
        self.n, self.o = nn.GroupNorm(32, x), nn.Conv2d(x, 4, 3, padding=1)

    @staticmethod
    def run(block, x, time, context):
        x = block[0](x, time)
        return block[1](x, context) if len(block) > 1 else x

    def forward(self, latent, t, context):
        angles = t.float()[:, None] * self.frequencies
        time = self.t2(F.silu(self.t1(torch.cat((angles.cos(), angles.sin()), -1).to(latent.dtype))))
        x = self.i(latent)
        skips = [x]
        for level, blocks in enumerate(self.dn):
            for block in blocks:
                x = self.run(block, x, time, context)
                skips.append(x)
            if level < 3:
                x = self.ds[level](x)
                skips.append(x)
        x = self.m2(self.ma(self.m1(x, time), context), time)
        for level, blocks in enumerate(self.up):
            for block in blocks:
                x = self.run(block, torch.cat((x, skips.pop()), 1), time, context)
            if level < 3:
                x = self.us[level](F.interpolate(x, scale_factor=2, mode="nearest"))
        return self.o(F.silu(self.n(x)))
