"""Models of small_kinds.py over sound, text, sets, graphs and tables."""

import itertools

import torch
from small_kinds_parts import Lambda, seq
from torch import nn
from torch.nn import functional as F


def words_spotted():
    def block(a, b, stride):
        return seq(
            nn.Conv2d(a, a, 3, stride, 1, groups=a, bias=False),
            nn.BatchNorm2d(a),
            nn.ReLU(),
            nn.Conv2d(a, b, 1, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(),
        )

    return seq(
        nn.Conv2d(1, 64, (10, 4), (2, 2), (5, 1)),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *[block(64, 64, 1) for _ in range(4)],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 12),
    )


def broadcast_residuals():
    """A mean over frequencies goes on in time alone, and is added to each (BC-ResNet)."""

    def f(x, first, across, along, head):
        x = first(x)
        for a, t in zip(across, along, strict=True):
            y = a(x)
            x = F.relu(x + y + t(y.mean(2, keepdim=True)))
        return head(x.mean(2)).mean(-1)

    c = 20
    return Lambda(
        f,
        first=nn.Conv2d(1, c, 5, (2, 1), 2),
        head=nn.Conv1d(c, 12, 1),
        across=nn.ModuleList([seq(nn.Conv2d(c, c, (3, 1), padding=(1, 0), groups=c), nn.BatchNorm2d(c)) for _ in range(4)]),
        along=nn.ModuleList(
            [
                seq(
                    nn.Conv2d(c, c, (1, 3), padding=(0, d), dilation=(1, d), groups=c),
                    nn.BatchNorm2d(c),
                    nn.SiLU(),
                    nn.Conv2d(c, c, 1),
                )
                for d in (1, 2, 4, 8)
            ]
        ),
    )


def wave_unet():
    def f(x, down, up, last):
        kept = []
        for d in down:
            x = F.leaky_relu(d(x), 0.2)
            kept.append(x)
            x = x[..., ::2]
        for u, k in zip(up, reversed(kept), strict=True):
            x = F.interpolate(x, size=k.shape[-1], mode="linear", align_corners=True)
            x = F.leaky_relu(u(torch.cat([x, k], 1)), 0.2)
        return torch.tanh(last(x))

    w = (1, 12, 24, 36, 48)
    return Lambda(
        f,
        down=nn.ModuleList([nn.Conv1d(a, b, 15, padding=7) for a, b in itertools.pairwise(w)]),
        up=nn.ModuleList([nn.Conv1d(b + a, a, 5, padding=2) for a, b in zip(w[:0:-1], (48, 48, 36, 24), strict=True)]),
        last=nn.Conv1d(12, 1, 1),
    )


def masked_tcn():
    """Encoded by a learned transform, masked, decoded (Conv-TasNet)."""

    def f(x, encode, blocks, mask, decode):
        w = F.relu(encode(x))
        y, total = w, 0
        for b in blocks:
            y = y + b(y)
            total = total + y
        m = torch.sigmoid(mask(total)).view(1, 2, 64, -1)
        return decode((m * w[:, None]).view(2, 64, -1))

    return Lambda(
        f,
        encode=nn.Conv1d(1, 64, 16, 8, bias=False),
        mask=nn.Conv1d(64, 128, 1),
        decode=nn.ConvTranspose1d(64, 1, 16, 8),
        blocks=nn.ModuleList(
            [
                seq(
                    nn.Conv1d(64, 96, 1),
                    nn.PReLU(),
                    nn.GroupNorm(1, 96),
                    nn.Conv1d(96, 96, 3, padding=d, dilation=d, groups=96),
                    nn.PReLU(),
                    nn.GroupNorm(1, 96),
                    nn.Conv1d(96, 64, 1),
                )
                for d in (1, 2, 4, 8, 16, 32)
            ]
        ),
    )


def enhancer():
    """A mask of the spectrum by a GRU."""

    def f(x, gru, mask, window):
        s = torch.view_as_real(torch.stft(x, 320, 160, window=window, return_complex=True))
        size = torch.sqrt(s.pow(2).sum(-1) + 1e-9)
        m = torch.sigmoid(mask(gru(torch.log(size).transpose(1, 2))[0])).transpose(1, 2)
        return s * m[..., None]

    return Lambda(f, gru=nn.GRU(161, 96, 2, batch_first=True), mask=nn.Linear(96, 161), window=torch.hann_window(320))


def relative_memory():
    """Attention over a memory with shifted relative positions (Transformer-XL)."""

    def f(x, memory, q, kv, r, out, norm, table, u, v):
        h, n, m = 4, x.shape[1], memory.shape[1]
        both = torch.cat([memory, x], 1)
        k, w = (t.view(1, n + m, h, -1) for t in kv(both).chunk(2, -1))
        a = q(x).view(1, n, h, -1)
        p = r(table).view(n + m, h, -1)
        ac = torch.einsum("bihd,bjhd->bhij", a + u, k)
        bd = F.pad(torch.einsum("bihd,jhd->bhij", a + v, p), (1, 0)).view(1, h, n + m + 1, n)[:, :, 1:].reshape(1, h, n, n + m)
        seen = torch.triu(torch.ones(n, n + m, dtype=torch.bool), 1 + m)
        s = ((ac + bd) / 5).masked_fill(seen, float("-inf")).softmax(-1)
        return norm(x + out(torch.einsum("bhij,bjhd->bihd", s, w).reshape(1, n, -1)))

    c = 128
    return Lambda(
        f,
        q=nn.Linear(c, c),
        kv=nn.Linear(c, 2 * c),
        r=nn.Linear(c, c),
        out=nn.Linear(c, c),
        norm=nn.LayerNorm(c),
        table=torch.randn(96, c),
        u=torch.randn(4, c // 4),
        v=torch.randn(4, c // 4),
    )


def graph_attention():
    def f(x, edges, project, head, a, b):
        for turn in range(2):
            z = project[turn](x).view(-1, 4, 16)
            s, t = edges[0], edges[1]
            e = F.leaky_relu((z * a).sum(-1)[s] + (z * b).sum(-1)[t], 0.2)
            e = torch.exp(e - e.max())
            total = torch.zeros(x.shape[0], 4).index_add(0, t, e)
            w = e / (total[t] + 1e-9)
            x = F.elu(torch.zeros(x.shape[0], 4, 16).index_add(0, t, z[s] * w[..., None]).flatten(1))
        return head(x).log_softmax(-1)

    return Lambda(
        f,
        project=nn.ModuleList([nn.Linear(100, 64), nn.Linear(64, 64)]),
        head=nn.Linear(64, 7),
        a=torch.randn(4, 16),
        b=torch.randn(4, 16),
    )


def edge_convolutions():
    """Nearest neighbours found anew in each layer (DGCNN)."""

    def f(x, layers, head):
        found = []
        for layer in layers:
            far = x.pow(2).sum(1)[:, :, None] - 2 * x.transpose(1, 2) @ x + x.pow(2).sum(1)[:, None]
            at = far.topk(10, -1, largest=False)[1]
            near = x.transpose(1, 2)[torch.arange(1)[:, None, None], at]
            mine = x.transpose(1, 2)[:, :, None].expand(-1, -1, 10, -1)
            x = layer(torch.cat([near - mine, mine], -1).permute(0, 3, 1, 2)).amax(-1)
            found.append(x)
        return head(torch.cat(found, 1).amax(2))

    w = (3, 32, 64)
    return Lambda(
        f,
        head=nn.Linear(96, 40),
        layers=nn.ModuleList(
            [seq(nn.Conv2d(2 * a, b, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)) for a, b in itertools.pairwise(w)]
        ),
    )


def sets():
    """Induced points attend to a set and it to them (Set Transformer)."""

    def f(x, enter, first, second, pool, head, points, seed):
        x = enter(x)
        i = first(points.expand(x.shape[0], -1, -1), x, x)[0]
        x = x + second(x, i, i)[0]
        return head(pool(seed.expand(x.shape[0], -1, -1), x, x)[0].flatten(1))

    def mha():
        return nn.MultiheadAttention(64, 4, batch_first=True)

    return Lambda(
        f,
        enter=nn.Linear(3, 64),
        first=mha(),
        second=mha(),
        pool=mha(),
        head=nn.Linear(64, 10),
        points=torch.randn(1, 16, 64),
        seed=torch.randn(1, 1, 64),
    )


def searched_words():
    """Hashed n-grams summed (fastText), and a tower of two."""

    def f(a, b, table, weights, left, right):
        x, y = (table(t).sum(1) / (t > 0).sum(1, keepdim=True).clamp(min=1) for t in (a, b))
        return F.normalize(left(x), dim=-1) @ F.normalize(right(y), dim=-1).t() * weights.exp()

    return Lambda(f, table=nn.Embedding(5000, 48), left=nn.Linear(48, 64), right=nn.Linear(48, 64), weights=torch.ones(1))


def frozen_pairs():
    """Products of every pair of features (factorization machines, cross networks) over categories."""

    def f(x, table, first, deep, w):
        e = table(x)
        pairs = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(-1, keepdim=True)
        y0 = y = e.flatten(1)
        for i in range(3):
            y = y0 * (y @ w[i])[:, None] + y
        return torch.sigmoid(first(x).sum(1) + pairs + deep(y))

    return Lambda(
        f,
        table=nn.Embedding(1000, 12),
        first=nn.Embedding(1000, 1),
        deep=seq(nn.Linear(240, 64), nn.Dropout(), nn.ReLU(), nn.Linear(64, 1)),
        w=0.1 * torch.randn(3, 240),
    )


def forecaster():
    """Blocks that take away what they explain (N-BEATS), and patches of a series (PatchTST)."""

    def f(x, blocks, embed, encoder, head):
        m, s = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        x = (x - m) / s
        rest, sums = x, 0
        for b in blocks:
            back, on = b(rest).split([96, 24], -1)
            rest, sums = rest - back, sums + on
        p = encoder(embed(x.unfold(1, 16, 8)))
        return (sums + head(p.flatten(1))) * s + m

    return Lambda(
        f,
        blocks=nn.ModuleList([seq(nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 120)) for _ in range(4)]),
        embed=nn.Linear(16, 32),
        encoder=nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"),
        head=nn.Linear(11 * 32, 24),
    )


def codes():
    """The nearest of a table, between an encoder and a decoder of sound, residual codes of them."""

    def f(x, enter, leave, tables):
        z = enter(x).transpose(1, 2)
        rest, total, found = z, 0, []
        for i in range(3):
            far = rest.pow(2).sum(-1, keepdim=True) - 2 * rest @ tables[i].t() + tables[i].pow(2).sum(-1)
            at = far.argmin(-1)
            q = F.embedding(at, tables[i])
            rest, total = rest - q, total + q
            found.append(at)
        return leave(total.transpose(1, 2)), torch.stack(found, 1)

    return Lambda(
        f,
        enter=seq(nn.Conv1d(1, 16, 7, padding=3), nn.ELU(), nn.Conv1d(16, 32, 8, 4, 2), nn.ELU(), nn.Conv1d(32, 32, 10, 5, 3)),
        leave=seq(
            nn.ConvTranspose1d(32, 32, 10, 5, 3, 1),
            nn.ELU(),
            nn.ConvTranspose1d(32, 16, 8, 4, 2),
            nn.ELU(),
            nn.Conv1d(16, 1, 7, padding=3),
        ),
        tables=torch.randn(3, 256, 32),
    )


def state_space():
    """A selective state, step by step in parallel by logarithms of products (S6)."""

    def f(x, enter, conv, parts, leave, decay):
        a, gate = enter(x).chunk(2, -1)
        a = F.silu(conv(a.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        b, c, d = parts(a).split([8, 8, 64], -1)
        d = F.softplus(d)
        y, h = [], torch.zeros(x.shape[0], 64, 8)
        for i in range(x.shape[1]):
            h = h * torch.exp(d[:, i, :, None] * decay) + (d[:, i] * a[:, i])[..., None] * b[:, i, None]
            y.append((h * c[:, i, None]).sum(-1))
        return leave(torch.stack(y, 1) * F.silu(gate))

    return Lambda(
        f,
        enter=nn.Linear(32, 128),
        conv=nn.Conv1d(64, 64, 4, padding=3, groups=64),
        parts=nn.Linear(64, 80),
        leave=nn.Linear(64, 32),
        decay=-torch.rand(64, 8),
    )


def random_features():
    """Attention by features of its kernel (Performer), then a long convolution by gates (Hyena)."""

    def f(x, qkv, out, mix, long, gate, omega):
        q, k, v = (t.view(1, x.shape[1], 4, 16).transpose(1, 2) for t in qkv(x).chunk(3, -1))

        def phi(t):
            return torch.exp(t @ omega - t.pow(2).sum(-1, keepdim=True) / 2 - 3) + 1e-6

        q, k = phi(q / 2), phi(k / 2)
        y = (q @ (k.transpose(-1, -2) @ v)) / (q @ k.sum(2)[..., None])
        x = x + out(y.transpose(1, 2).flatten(2))
        a, b = mix(x).chunk(2, -1)
        return x + gate(torch.sigmoid(a) * long(b.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))

    return Lambda(
        f,
        qkv=nn.Linear(64, 192),
        out=nn.Linear(64, 64),
        mix=nn.Linear(64, 128),
        gate=nn.Linear(64, 64),
        long=nn.Conv1d(64, 64, 128, padding=127, groups=64),
        omega=torch.randn(16, 32),
    )
