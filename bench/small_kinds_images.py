"""Models of small_kinds.py over images, volumes and fields."""

import torch
from small_kinds_parts import Lambda, seq
from torch import nn
from torch.nn import functional as F


def capsules():
    def squash(s):
        n = s.pow(2).sum(-1, keepdim=True)
        return n / (1 + n) * s / torch.sqrt(n + 1e-8)

    def f(x, first, second, weights):
        u = squash(second(F.relu(first(x))).view(1, -1, 8))
        hat = torch.einsum("bni,nijo->bnjo", u, weights)
        b = torch.zeros(1, hat.shape[1], 10)
        for _ in range(3):
            v = squash((b.softmax(-1)[..., None] * hat).sum(1))
            b = b + (hat * v[:, None]).sum(-1)
        return v.norm(dim=-1)

    return Lambda(f, first=nn.Conv2d(1, 64, 9), second=nn.Conv2d(64, 64, 9, 2), weights=0.1 * torch.randn(96, 8, 10, 16))


def mixer():
    def f(x, stem, tokens, channels, head):
        x = stem(x).flatten(2).transpose(1, 2)
        for t, c in zip(tokens, channels, strict=True):
            x = x + t(x.transpose(1, 2)).transpose(1, 2)
            x = x + c(x)
        return head(x.mean(1))

    return Lambda(
        f,
        stem=nn.Conv2d(3, 96, 16, 16),
        head=nn.Linear(96, 10),
        tokens=nn.ModuleList([seq(nn.Linear(81, 48), nn.GELU(), nn.Linear(48, 81)) for _ in range(4)]),
        channels=nn.ModuleList([seq(nn.LayerNorm(96), nn.Linear(96, 384), nn.GELU(), nn.Linear(384, 96)) for _ in range(4)]),
    )


def rolled_windows():
    def f(x, embed, blocks, merge):
        x = embed(x).permute(0, 2, 3, 1)
        for i, b in enumerate(blocks):
            n, h, w, c = x.shape
            y = torch.roll(b[0](x), (-3, -3), (1, 2)) if i % 2 else b[0](x)
            y = F.pad(y, (0, 0, 0, (-w) % 7, 0, (-h) % 7))
            hh, ww = y.shape[1] // 7, y.shape[2] // 7
            y = y.view(n, hh, 7, ww, 7, c).transpose(2, 3).reshape(-1, 49, c)
            q, k, v = b[1](y).view(-1, 49, 3, 3, c // 3).permute(2, 0, 3, 1, 4)
            y = b[2](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 49, c))
            y = y.view(n, hh, ww, 7, 7, c).transpose(2, 3).reshape(n, hh * 7, ww * 7, c)[:, :h, :w]
            x = x + (torch.roll(y, (3, 3), (1, 2)) if i % 2 else y)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return merge(x)

    c = 48
    return Lambda(
        f,
        embed=nn.Conv2d(3, c, 4, 4),
        merge=seq(nn.LayerNorm(4 * c), nn.Linear(4 * c, 2 * c)),
        blocks=nn.ModuleList([nn.ModuleList([nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)]) for _ in range(4)]),
    )


def denoiser():
    """A diffusion's U-Net: time embedded, groups normed, attention in the middle."""

    def f(x, t, enter, time, first, shift, down, middle, up, last):
        e = t[:, None] * torch.exp(-torch.arange(16) * 0.5)
        e = time(torch.cat([e.sin(), e.cos()], -1))
        a = enter(x)
        h = a + first(a) * (1 + shift(e)[:, :, None, None])
        d = down(h)
        n, c, hh, w = d.shape
        q = middle[0](d).flatten(2).transpose(1, 2)
        d = d + middle[2](middle[1](q, q, q)[0].transpose(1, 2).reshape(n, c, hh, w))
        y = up(F.interpolate(d, scale_factor=2.0, mode="nearest"))
        return last(torch.cat([y, h], 1))

    c = 32

    def block(a, b):
        return seq(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))

    return Lambda(
        f,
        enter=nn.Conv2d(3, c, 3, padding=1),
        time=seq(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64)),
        first=block(c, c),
        shift=nn.Linear(64, c),
        down=nn.Conv2d(c, 2 * c, 3, 2, 1),
        up=block(2 * c, c),
        last=block(2 * c, 3),
        middle=nn.ModuleList(
            [nn.GroupNorm(8, 2 * c), nn.MultiheadAttention(2 * c, 4, batch_first=True), nn.Conv2d(2 * c, 2 * c, 1)]
        ),
    )


def spectral_operator():
    """Weights on a few frequencies (a Fourier neural operator), the transform as products."""

    def f(x, enter, local, leave, into, back, weights):
        x = enter(x).transpose(1, 2)
        for i in range(3):
            z = torch.einsum("bcn,nkp->bckp", x, into)
            re = torch.einsum("bck,cok->bok", z[..., 0], weights[i, ..., 0]) - torch.einsum(
                "bck,cok->bok", z[..., 1], weights[i, ..., 1]
            )
            im = torch.einsum("bck,cok->bok", z[..., 0], weights[i, ..., 1]) + torch.einsum(
                "bck,cok->bok", z[..., 1], weights[i, ..., 0]
            )
            x = F.gelu(torch.einsum("bokp,nkp->bon", torch.stack([re, im], -1), back) + local[i](x))
        return leave(x.transpose(1, 2))

    n, k, c = 256, 12, 32
    turn = 2 * torch.pi * torch.arange(n)[:, None] * torch.arange(k) / n
    each = torch.stack([turn.cos(), -turn.sin()], -1)
    return Lambda(
        f,
        enter=nn.Linear(2, c),
        local=nn.ModuleList([nn.Conv1d(c, c, 1) for _ in range(3)]),
        leave=nn.Linear(c, 1),
        into=each,
        back=each / n,
        weights=torch.randn(3, c, c, k, 2) / c,
    )


def field():
    """Places to colours, by sines of them (NeRF)."""

    def f(x, first, second, head):
        e = torch.cat([x, *[g(2.0**i * x) for i in range(6) for g in (torch.sin, torch.cos)]], -1)
        h = second(torch.cat([first(e), e], -1))
        y = head(h)
        return torch.sigmoid(y[..., :3]), F.softplus(y[..., 3:] - 1)

    return Lambda(
        f,
        first=seq(nn.Linear(39, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()),
        head=nn.Linear(128, 4),
        second=seq(nn.Linear(167, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()),
    )


def tracker():
    """A template's features are the weights that the search image meets."""

    def f(z, x, body, head):
        a, b = body(z), body(x)
        s = F.conv2d(b, a.view(48, 1, *a.shape[2:]), groups=48)
        return head(s).sigmoid()

    return Lambda(
        f,
        body=seq(
            nn.Conv2d(3, 24, 5, 2),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 48, 5, 2),
            nn.BatchNorm2d(48),
            nn.ReLU(),
            nn.Conv2d(48, 48, 3),
        ),
        head=nn.Conv2d(48, 1, 1),
    )


def recurrent_images():
    """Frames through a convolutional LSTM."""

    def f(x, gates, last):
        n, t, _, h, w = x.shape
        s = c = torch.zeros(n, 16, h, w)
        for i in range(t):
            a, b, o, g = gates(torch.cat([x[:, i], s], 1)).chunk(4, 1)
            c = torch.sigmoid(b) * c + torch.sigmoid(a) * torch.tanh(g)
            s = torch.sigmoid(o) * torch.tanh(c)
        return last(s)

    return Lambda(f, gates=nn.Conv2d(17, 64, 3, padding=1), last=nn.Conv2d(16, 1, 1))


def heat_maps():
    """Middles of objects as peaks (CenterNet)."""

    def f(x, body, heat, size):
        y = body(x)
        h = heat(y).sigmoid()
        h = h * (F.max_pool2d(h, 3, 1, 1) == h).float()
        score, at = h.flatten(1).topk(50)
        place = at % (h.shape[2] * h.shape[3])
        s = size(y).flatten(2).transpose(1, 2).gather(1, place[..., None].expand(-1, -1, 2))
        return torch.cat(
            [(place % h.shape[3])[..., None].float(), (place // h.shape[3])[..., None].float(), s, score[..., None]], -1
        )

    return Lambda(
        f,
        body=seq(
            nn.Conv2d(3, 24, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(24, 32, 3, 2, 1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
        ),
        heat=nn.Conv2d(32, 10, 1),
        size=nn.Conv2d(32, 2, 1),
    )


def text_in_images():
    """Columns of a convolution through an LSTM both ways (CRNN)."""

    def f(x, body, lstm, head):
        y = body(x).mean(2).transpose(1, 2)
        return head(lstm(y)[0]).log_softmax(-1)

    return Lambda(
        f,
        body=seq(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d((2, 1)),
            nn.Conv2d(64, 96, 3, padding=1),
            nn.BatchNorm2d(96),
            nn.ReLU(),
            nn.MaxPool2d((2, 1), (2, 1), (0, 0)),
        ),
        lstm=nn.LSTM(96, 64, 2, bidirectional=True, batch_first=True),
        head=nn.Linear(128, 80),
    )


def residual_volumes():
    def block(a, b, s=1):
        return seq(nn.Conv3d(a, b, 3, s, 1, bias=False), nn.GroupNorm(4, b), nn.PReLU(b))

    def f(x, a, b, c, up, d, last):
        s = a(x)
        y = c(b(s)) + b(s)
        return last(d(torch.cat([F.interpolate(up(y), scale_factor=2.0, mode="trilinear"), s], 1))).softmax(1)

    return Lambda(
        f, a=block(2, 12), b=block(12, 24, 2), c=block(24, 24), up=nn.Conv3d(24, 12, 1), d=block(24, 12), last=nn.Conv3d(12, 4, 1)
    )
