"""Kinds of models that bench/architectures.py and bench/new_exporter.py do not have, with random weights: images of odd sizes,
channels last written by hand, detection heads with NonMaxSuppression, Conformers, codecs, vocoders, decoders of latents, a step
with caches, tables (scikit-learn), graphs, volumes.

usage: PYTHONPATH=LIBRARIES .venv/bin/python bench/user_kinds.py FOLDER [NAME]...
       PYTHONPATH=build/python .venv/bin/python bench/user_models.py --models FOLDER/*.onnx --engines smelt onnxruntime

LIBRARIES: as bench/new_exporter.py's, and scikit-learn, scipy, joblib, threadpoolctl, skl2onnx. NAME: odd.resnet18, table.forest,
…; without any: all. Each becomes FOLDER/NAME.onnx with its .inputs.npz; one that is there is kept. What a library cannot export
in 120 s is said and left out.
"""

import exports
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

LIMIT_S = 120


def image(height, width, channels=3):
    return {"x": torch.randn(1, channels, height, width)}


def odd_sizes():
    """Extents that no tile divides."""
    from torchvision import models
    for name, height, width in (("resnet18", 227, 181), ("mobilenet_v2", 193, 257), ("vgg11", 150, 201), ("densenet121", 130, 99),
                                ("efficientnet_b0", 201, 157), ("shufflenet_v2_x0_5", 99, 331), ("squeezenet1_1", 333, 217),
                                ("convnext_tiny", 161, 97), ("regnet_x_400mf", 187, 203), ("googlenet", 171, 149)):
        yield f"odd.{name}", lambda name=name: getattr(models, name)(weights=None), image(height, width)
    for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large"):
        yield (f"odd.{name}", lambda name=name: getattr(models.segmentation, name)(weights=None, weights_backbone=None),
               image(173, 219))


def detectors():
    from torchvision.models import detection
    for name, size in (("ssdlite320_mobilenet_v3_large", 320), ("fasterrcnn_mobilenet_v3_large_320_fpn", 320)):
        yield (f"detect.{name}", lambda name=name: getattr(detection, name)(weights=None, weights_backbone=None, num_classes=21),
               image(size, size))
    yield "detect.grid", Grid, image(352, 416)


class Grid(nn.Module):
    """Three scales, boxes decoded as a YOLO does, the best 100 by NonMaxSuppression."""

    def __init__(self):
        super().__init__()
        def block(a, b, stride):
            return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.SiLU())
        self.stem = nn.Sequential(block(3, 16, 2), block(16, 32, 2), block(32, 64, 2))
        self.more = nn.ModuleList([block(64, 128, 2), block(128, 256, 2)])
        self.heads = nn.ModuleList([nn.Conv2d(c, 3 * 85, 1) for c in (64, 128, 256)])

    def forward(self, x):
        import torchvision
        maps = [self.stem(x)]
        for m in self.more:
            maps.append(m(maps[-1]))
        boxes, scores = [], []
        for head, m, stride in zip(self.heads, maps, (8, 16, 32), strict=True):
            y = head(m)
            height, width = y.shape[2:]
            y = y.view(1, 3, 85, height, width).permute(0, 1, 3, 4, 2).sigmoid()
            grid = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), -1)
            middle, size = (y[..., :2] * 2 + grid - 0.5) * stride, (y[..., 2:4] * 2) ** 2 * stride
            boxes.append(torch.cat([middle - size / 2, middle + size / 2], -1).reshape(-1, 4))
            scores.append((y[..., 4:5] * y[..., 5:]).amax(-1).reshape(-1))
        boxes, scores = torch.cat(boxes), torch.cat(scores)
        kept = torchvision.ops.nms(boxes, scores, 0.5)[:100]
        return boxes[kept], scores[kept]


class ChannelsLast(nn.Module):
    """As TensorFlow's converters write it: transposes around each convolution, the rest over channels last."""

    def __init__(self):
        super().__init__()
        sizes = ((3, 24, 3, 2, 1), (24, 24, 3, 1, 24), (24, 48, 1, 1, 1), (48, 48, 5, 2, 48), (48, 96, 1, 1, 1),
                 (96, 96, 3, 2, 96), (96, 192, 1, 1, 1), (192, 192, 3, 1, 192), (192, 192, 1, 1, 1))
        self.layers = nn.ModuleList([nn.Conv2d(a, b, k, s, k // 2, groups=g, bias=False) for a, b, k, s, g in sizes])
        self.scales = nn.ParameterList([torch.rand(b) + 0.5 for _, b, _, _, _ in sizes])
        self.head = nn.Linear(192, 100)

    def forward(self, x):
        for layer, scale in zip(self.layers, self.scales, strict=True):
            y = layer(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1) * scale + 0.1
            x = torch.clamp(y, 0, 6)
        return F.softmax(self.head(x.mean((1, 2))), -1)


class Conformer(nn.Module):
    """Blocks of half steps, relative attention's scores, a gated depthwise convolution of 31 frames."""

    def __init__(self, width=144, heads=4, blocks=4):
        super().__init__()
        self.heads, self.front = heads, nn.Sequential(nn.Conv2d(1, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 2), nn.ReLU())
        self.enter = nn.Linear(64 * 19, width)
        def half():
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.blocks = nn.ModuleList([nn.ModuleDict({
            "first": half(), "second": half(), "norm": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width),
            "position": nn.Linear(width, width, bias=False), "out": nn.Linear(width, width), "before": nn.LayerNorm(width),
            "gate": nn.Conv1d(width, 2 * width, 1), "depthwise": nn.Conv1d(width, width, 31, padding=15, groups=width),
            "batch": nn.BatchNorm1d(width), "point": nn.Conv1d(width, width, 1), "last": nn.LayerNorm(width)})
            for _ in range(blocks)])
        self.table = nn.Parameter(torch.randn(1, 2001, width))

    def attention(self, b, x):
        frames, width = x.shape[1:]
        q, k, v = (t.view(1, frames, self.heads, -1).transpose(1, 2) for t in b["qkv"](b["norm"](x)).chunk(3, -1))
        places = b["position"](self.table[:, 1000 - frames + 1:1000 + frames])
        places = places.view(1, 2 * frames - 1, self.heads, -1).transpose(1, 2)
        moved = F.pad(q @ places.transpose(-1, -2), (1, 0)).view(1, self.heads, 2 * frames, frames)[:, :, 1:]
        scores = q @ k.transpose(-1, -2) + moved.reshape(1, self.heads, frames, 2 * frames - 1)[..., :frames]
        return b["out"]((F.softmax(scores / 6, -1) @ v).transpose(1, 2).reshape(1, frames, width))

    def forward(self, x):
        x = self.front(x[:, None])
        x = self.enter(x.transpose(1, 2).flatten(2))
        for b in self.blocks:
            x = x + 0.5 * b["first"](x)
            x = x + self.attention(b, x)
            y = F.glu(b["gate"](b["before"](x).transpose(1, 2)), 1)
            x = x + b["point"](F.silu(b["batch"](b["depthwise"](y)))).transpose(1, 2)
            x = b["last"](x + 0.5 * b["second"](x))
        return x


class Vocoder(nn.Module):
    """Upsampled by transposed convolutions, dilated residual blocks, as HiFi-GAN."""

    def __init__(self):
        super().__init__()
        self.enter, widths = nn.Conv1d(80, 128, 7, padding=3), (128, 64, 32, 16)
        self.ups = nn.ModuleList([nn.ConvTranspose1d(a, b, 2 * s, s, s // 2) for a, b, s in zip(widths, widths[1:], (8, 8, 4),
                                                                                                strict=False)])
        self.blocks = nn.ModuleList([nn.ModuleList([nn.Conv1d(w, w, k, padding=d * (k // 2), dilation=d) for k in (3, 7)
                                                    for d in (1, 3, 5)]) for w in widths[1:]])
        self.leave = nn.Conv1d(16, 1, 7, padding=3)

    def forward(self, x):
        x = self.enter(x)
        for up, block in zip(self.ups, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            for conv in block:
                x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(self.leave(F.leaky_relu(x)))


class Causal(nn.Module):
    """Gated dilated convolutions that see the past alone, as WaveNet."""

    def __init__(self, width=48):
        super().__init__()
        self.enter = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList([nn.Conv1d(width, 2 * width, 2, dilation=2 ** (i % 8)) for i in range(16)])
        self.skips = nn.ModuleList([nn.Conv1d(width, width, 1) for _ in range(16)])
        self.leave = nn.Conv1d(width, 30, 1)

    def forward(self, x):
        x, total = self.enter(x), 0
        for i, (layer, skip) in enumerate(zip(self.layers, self.skips, strict=True)):
            a, b = layer(F.pad(x, (2 ** (i % 8), 0))).chunk(2, 1)
            y = skip(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + y, total + y
        return self.leave(F.relu(total))


class Enlarger(nn.Module):
    """Residual blocks and PixelShuffle, as EDSR."""

    def __init__(self, width=32):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.pairs = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(8)])
        self.up = nn.Conv2d(width, 4 * width, 3, padding=1)

    def forward(self, x):
        y = x = self.enter(x)
        for a, b in zip(self.pairs[::2], self.pairs[1::2], strict=True):
            y = y + 0.1 * b(F.relu(a(y)))
        return self.leave(F.pixel_shuffle(self.up(x + y), 2))


class Volume(nn.Module):
    """A U-Net of volumes, by InstanceNorm."""

    def __init__(self):
        super().__init__()
        def block(a, b, stride=1):
            return nn.Sequential(nn.Conv3d(a, b, 3, stride, 1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU())
        self.a, self.b, self.c = block(1, 16), block(16, 32, 2), block(32, 64, 2)
        self.up1, self.up2 = nn.ConvTranspose3d(64, 32, 2, 2), nn.ConvTranspose3d(32, 16, 2, 2)
        self.d, self.e, self.leave = block(64, 32), block(32, 16), nn.Conv3d(16, 3, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        y = self.d(torch.cat([self.up1(self.c(b)), b], 1))
        return self.leave(self.e(torch.cat([self.up2(y), a], 1)))


class Graph(nn.Module):
    """Messages along edges, summed at nodes."""

    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])

    def forward(self, x, edges):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            messages = F.relu(layer(torch.cat([x[edges[0]], x[edges[1]]], -1)))
            summed = torch.zeros_like(x).scatter_add(0, edges[1][:, None].expand_as(messages), messages)
            x = norm(x + summed)
        return x.mean(0)


class Points(nn.Module):
    """As PointNet."""

    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(*[m for a, b in ((3, 64), (64, 128), (128, 512))
                                    for m in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())])
        self.head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40), nn.LogSoftmax(-1))

    def forward(self, x):
        return self.head(self.each(x).amax(-1))


class Recommender(nn.Module):
    """Tables of categories, crossed, as DLRM."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, 16) for n in (10000, 3000, 700, 50, 7)])
        self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16))
        self.top = nn.Sequential(nn.Linear(16 + 15, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, numbers, categories):
        parts = torch.stack([self.dense(numbers), *(t(categories[:, i]) for i, t in enumerate(self.tables))], 1)
        crossed = parts @ parts.transpose(1, 2)
        row, column = torch.triu_indices(6, 6, 1)
        return torch.sigmoid(self.top(torch.cat([parts[:, 0], crossed[:, row, column]], 1)))


class Root(nn.Module):
    """A norm by the root of the mean square, spelled out."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


class Step(nn.Module):
    """One token through four layers with caches of keys and values, heads shared by groups."""

    def __init__(self, width=256, heads=8, shared=2):
        super().__init__()
        self.heads, self.shared, each = heads, shared, width // heads
        self.q, self.out = (nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(4)]) for _ in range(2))
        self.kv = nn.ModuleList([nn.Linear(width, 2 * shared * each, bias=False) for _ in range(4)])
        self.up, self.down = (nn.ModuleList([nn.Linear(a, b, bias=False) for _ in range(4)]) for a, b in
                              ((width, 4 * width), (2 * width, width)))
        self.norms = nn.ModuleList([Root(width) for _ in range(8)])
        self.table, self.head = nn.Embedding(2000, width), nn.Linear(width, 2000, bias=False)

    def forward(self, token, keys, values):
        x, kept_k, kept_v = self.table(token), [], []
        for i in range(4):
            y = self.norms[2 * i](x)
            q = self.q[i](y).view(1, 1, self.heads, -1).transpose(1, 2)
            k, v = (t.view(1, 1, self.shared, -1).transpose(1, 2) for t in self.kv[i](y).chunk(2, -1))
            k, v = torch.cat([keys[i], k], 2), torch.cat([values[i], v], 2)
            kept_k.append(k)
            kept_v.append(v)
            k, v = (t.repeat_interleave(self.heads // self.shared, 1) for t in (k, v))
            x = x + self.out[i](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 1, -1))
            a, b = self.up[i](self.norms[2 * i + 1](x)).chunk(2, -1)
            x = x + self.down[i](F.silu(a) * b)
        return self.head(x), torch.stack(kept_k)


class Reader(nn.Module):
    """Convolutions of characters, two LSTMs both ways, a layer of classes."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(200, 32)
        self.windows = nn.ModuleList([nn.Conv1d(32, 48, k, padding=k // 2) for k in (3, 5, 7)])
        self.lstm = nn.LSTM(144, 96, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(192, 17)

    def forward(self, x):
        x = self.table(x).transpose(1, 2)
        x = torch.cat([F.relu(w(x)) for w in self.windows], 1)
        return F.log_softmax(self.head(self.lstm(x.transpose(1, 2))[0]), -1)


def own():
    yield "last.mobile", ChannelsLast, {"x": torch.randn(1, 161, 193, 3)}
    yield "speech.conformer", Conformer, {"x": torch.randn(1, 203, 80)}
    yield "speech.vocoder", Vocoder, {"x": torch.randn(1, 80, 61)}
    yield "speech.causal", Causal, {"x": torch.randn(1, 1, 4001)}
    yield "image.enlarger", Enlarger, image(99, 131)
    yield "volume.unet", Volume, {"x": torch.randn(1, 1, 28, 44, 36)}
    yield "graph.messages", Graph, {"x": torch.randn(999, 64), "edges": torch.randint(0, 999, (2, 7001))}
    yield "points.net", Points, {"x": torch.randn(2, 3, 1501)}
    yield "table.recommender", Recommender, {"numbers": torch.randn(33, 13), "categories": torch.randint(0, 7, (33, 5))}
    yield "text.step", Step, {"token": torch.randint(0, 2000, (1, 1)), "keys": torch.randn(4, 1, 2, 77, 32),
                              "values": torch.randn(4, 1, 2, 77, 32)}
    yield "text.reader", Reader, {"x": torch.randint(0, 200, (3, 83))}


class Decoded(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        out = self.model.decode(x)
        return out[0] if isinstance(out, tuple) else out.sample


def latents():
    import diffusers
    sizes = {"block_out_channels": (32, 64, 64), "layers_per_block": 1, "norm_num_groups": 16,
             "down_block_types": ("DownEncoderBlock2D",) * 3, "up_block_types": ("UpDecoderBlock2D",) * 3}
    yield "latent.kl", lambda: Decoded(diffusers.AutoencoderKL(latent_channels=4, **sizes)), image(24, 20, 4)
    yield "latent.vq", lambda: Decoded(diffusers.VQModel(latent_channels=3, num_vq_embeddings=64, **sizes)), image(24, 20)
    yield "latent.tiny", lambda: Decoded(diffusers.AutoencoderTiny()), image(24, 20, 4)


def codecs():
    import transformers
    small = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 256}
    yield ("speech.wav2vec2_conformer", lambda: transformers.Wav2Vec2ConformerModel(transformers.Wav2Vec2ConformerConfig(
        conv_dim=(64,) * 7, num_conv_pos_embeddings=32, num_conv_pos_embedding_groups=4, **small)),
        {"x": 0.1 * torch.randn(1, 8111)})
    yield ("speech.vits_decoder", lambda: transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig(
        upsample_initial_channel=64)), {"x": torch.randn(1, 31, 80)})
    yield ("image.swin2sr", lambda: transformers.Swin2SRForImageSuperResolution(transformers.Swin2SRConfig(
        embed_dim=48, depths=[2, 2], num_heads=[4, 4], window_size=8, upsampler="pixelshuffledirect")), image(48, 56))
    yield ("image.depth", lambda: transformers.DPTForDepthEstimation(transformers.DPTConfig(
        hidden_size=96, num_hidden_layers=4, num_attention_heads=4, intermediate_size=192, backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[16, 32, 64, 64], fusion_hidden_size=32, image_size=224)), image(224, 224))


def program(model, inputs, file):
    torch.onnx.export(model, tuple(inputs.values()), file, input_names=list(inputs), opset_version=17, dynamo=False)
    return ""


def tables(folder, wanted):
    """scikit-learn's, over 500 rows of 23 numbers."""
    from skl2onnx import to_onnx
    from sklearn import (
        cluster,
        decomposition,
        ensemble,
        gaussian_process,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 23)).astype(np.float32)
    classes, numbers = (x[:, :3].sum(1) > 0).astype(int) + (x[:, 3] > 0.5), x[:, 0] * x[:, 1] + np.sin(x[:, 2])
    scaled = (preprocessing.StandardScaler(), decomposition.PCA(9))
    for name, model, y in (
            ("forest", ensemble.RandomForestClassifier(100, max_depth=9), classes),
            ("boosting", ensemble.GradientBoostingRegressor(n_estimators=150), numbers),
            ("histogram", ensemble.HistGradientBoostingClassifier(max_iter=40), classes),
            ("neighbours", neighbors.KNeighborsClassifier(5), classes),
            ("vectors", svm.SVC(probability=True), classes),
            ("logistic", pipeline.make_pipeline(*scaled, linear_model.LogisticRegression()), classes),
            ("network", pipeline.make_pipeline(*scaled, neural_network.MLPClassifier((64, 32), max_iter=20)), classes),
            ("polynomial", pipeline.make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.Ridge()), numbers),
            ("process", gaussian_process.GaussianProcessRegressor(), numbers),
            ("bayes", naive_bayes.GaussianNB(), classes),
            ("clusters", cluster.KMeans(8, n_init=1), classes),
            ("quantiles", pipeline.make_pipeline(preprocessing.KBinsDiscretizer(5, encode="onehot-dense"),
                                                 linear_model.SGDClassifier(loss="log_loss")), classes)):
        path = folder / f"table.{name}.onnx"
        if path.exists() or (wanted and path.stem not in wanted):
            continue
        try:
            options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
            made = to_onnx(model.fit(x[:500], y[:500]), x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
            rows = rng.standard_normal((500, 23)).astype(np.float32)
            np.savez(path.with_suffix(".inputs.npz"), **{made.graph.input[0].name: rows})
            path.write_bytes(made.SerializeToString())
            print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB", flush=True)
        except Exception as e:  # whatever a converter raises
            print(f"{path.name}: {type(e).__name__}: {str(e)[:100]}", flush=True)


def main():
    folder, wanted = exports.asked_for(__doc__)
    exports.begin()
    for source in (own, odd_sizes, detectors, latents, codecs):
        try:
            for name, make, inputs in source():
                if not wanted or name in wanted:
                    exports.write(folder / f"{name}.onnx", make, inputs, False, program, LIMIT_S)
        except ImportError as e:
            print(f"{source.__name__}: {e}", flush=True)
    try:
        tables(folder, wanted)
    except ImportError as e:
        print(f"tables: {e}", flush=True)


if __name__ == "__main__":
    main()
