"""Transformers of images and text."""
import collections

import torch
import torch.nn.functional as F
from torch import nn

from torch_modules.attention import attend, heads


class PackedAttention(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.n = n
        self.in_proj_weight, self.in_proj_bias = nn.Parameter(torch.empty(3 * width, width)), nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        return self.out_proj(attend(heads(q, self.n), heads(k, self.n), heads(v, self.n)))


class ViTLayer(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.self_attention = PackedAttention(width, n)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class ViTEncoder(nn.Module):
    def __init__(self, width, depth, n, tokens):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width))
        self.layers = nn.Sequential(collections.OrderedDict((f"encoder_layer_{i}", ViTLayer(width, n)) for i in range(depth)))
        self.ln = nn.LayerNorm(width, 1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class ViTB16(nn.Module):
    def __init__(self, width=768):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, 16, 16, bias=False)
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.encoder = ViTEncoder(width, 12, 12, 197)
        self.heads = nn.Sequential(collections.OrderedDict(head=nn.Linear(width, 1000, bias=False)))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x), 1)
        return self.heads(self.encoder(x)[:, 0])


class BertEmbeddings(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.token_type_embeddings, self.LayerNorm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.register_buffer("token_types", torch.empty(1, 512, dtype=torch.int64))
        self.register_buffer("positions", torch.empty(1, 384, dtype=torch.int64))

    def forward(self, ids):
        types = self.token_types[:, :ids.shape[1]].expand(ids.shape)
        x = self.word_embeddings(ids) + self.token_type_embeddings(types)
        return self.LayerNorm(x + self.position_embeddings(self.positions))


class BertOutput(nn.Module):
    def __init__(self, cin, width):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(cin, width), nn.LayerNorm(width, 1e-12)

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class BertLayer(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.n = n
        qkv = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": qkv, "output": BertOutput(width, width)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = BertOutput(4 * width, width)

    def forward(self, x):
        qkv = self.attention["self"]
        y = attend(*(heads(qkv[name](x), self.n) for name in ("query", "key", "value")))
        x = self.attention["output"](y, x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    def __init__(self, width=768):
        super().__init__()
        self.embeddings = BertEmbeddings(width)
        self.encoder = nn.ModuleDict({"layer": nn.Sequential(*(BertLayer(width, 12) for _ in range(12)))})

    def forward(self, ids):
        return self.encoder["layer"](self.embeddings(ids))


class WhisperAttention(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.n = n
        self.q_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(3))
        self.k_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.out_proj(attend(*(heads(p(x), self.n) for p in (self.q_proj, self.k_proj, self.v_proj))))


class WhisperLayer(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = WhisperAttention(width, n), nn.LayerNorm(width)
        self.fc1, self.fc2, self.final_layer_norm = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        x = x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))
        return x.clamp(-64504, 64504) if x.dtype == torch.float16 else x


class WhisperEncoder(nn.Module):
    def __init__(self, width=384, n=6, depth=4, mels=80, frames=1500):
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1, bias=False)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1, bias=False)
        self.embed_positions = nn.Embedding(frames, width)
        self.layers = nn.Sequential(*(WhisperLayer(width, n) for _ in range(depth)))
        self.layer_norm = nn.LayerNorm(width)
        self.register_buffer("positions", torch.empty(frames, dtype=torch.int64))

    def forward(self, x):
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).transpose(1, 2)
        return self.layer_norm(self.layers(x + self.embed_positions(self.positions)))


class RmsNorm(nn.Module):
    """Spelled as it was exported."""

    def __init__(self, width):
        super().__init__()
        self.w = nn.Parameter(torch.empty(width))

    def forward(self, x):
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.w


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class LlamaLayer(nn.Module):
    """past: keys and values of earlier tokens. Returns the output, and the keys and values with this call's appended."""

    def __init__(self, width, n, kv, hidden):
        super().__init__()
        self.n, self.kv, d = n, kv, width // n
        self.n1, self.n2 = RmsNorm(width), RmsNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, kv * d, bias=False), nn.Linear(width, kv * d, bias=False)
        self.g, self.u = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.dn = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin, past=None):
        y = self.n1(x)
        q, k = rotate(heads(self.q(y), self.n), cos, sin), rotate(heads(self.k(y), self.kv), cos, sin)
        v = heads(self.v(y), self.kv)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        repeated = (k, v) if self.n == self.kv else (t.repeat_interleave(self.n // self.kv, 1) for t in (k, v))
        x = x + self.o(attend(q, *repeated, is_causal=past is None))
        y = self.n2(x)
        return x + self.dn(F.silu(self.g(y)) * self.u(y)), k, v


class LlamaGPT(nn.Module):
    def __init__(self, depth=16, width=512, n=16, kv=4, hidden=1408, words=32000):
        super().__init__()
        self.e, self.n, self.out = nn.Embedding(words, width), RmsNorm(width), nn.Linear(width, words, bias=False)
        self.b = nn.ModuleList(LlamaLayer(width, n, kv, hidden) for _ in range(depth))
        self.register_buffer("angles", torch.empty(1024, width // n // 2))

    def forward(self, ids):
        x = self.e(ids)
        cos, sin = self.angles.cos().to(x.dtype), self.angles.sin().to(x.dtype)
        for layer in self.b:
            x, _, _ = layer(x, cos, sin)
        return self.out(self.n(x))


class Llama7bDecode(nn.Module):
    def __init__(self, depth=2, width=4096, n=32, hidden=11008, words=32000):
        super().__init__()
        self.e, self.n, self.out = nn.Embedding(words, width), RmsNorm(width), nn.Linear(width, words, bias=False)
        self.b = nn.ModuleList(LlamaLayer(width, n, n, hidden) for _ in range(depth))
        self.register_buffer("frequencies", torch.empty(width // n // 2))

    def forward(self, ids, pos, *past):
        x = self.e(ids)
        angles = pos.float()[:, None, None, None] * self.frequencies
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        caches = []
        for i, layer in enumerate(self.b):
            x, *cache = layer(x, cos, sin, past[2 * i:2 * i + 2])
            caches += cache
        return self.out(self.n(x)), *caches
