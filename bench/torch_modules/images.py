"""Convolutional models of images."""
import itertools

import torch
import torch.nn.functional as F
from torch import nn


def conv(cin, cout, k=1, stride=1, act=nn.ReLU, groups=1, padding=None):
    """conv, batch norm (in the weights), activation"""
    layers = [nn.Conv2d(cin, cout, k, stride, k // 2 if padding is None else padding, groups=groups, bias=False), nn.Identity()]
    return nn.Sequential(*layers, *([act()] if act else []))


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.downsample = conv(cin, 4 * width, 1, stride, None) if stride != 1 or cin != 4 * width else None

    def forward(self, x):
        y = self.conv3(F.relu(self.conv2(F.relu(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        cin = 64
        for i, (width, depth) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
            first = Bottleneck(cin, width, 2 if i else 1)
            cin = 4 * width
            self.add_module(f"layer{i + 1}", nn.Sequential(first, *(Bottleneck(cin, width, 1) for _ in range(depth - 1))))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((-2, -1)))


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1, bias=False), nn.Conv2d(squeezed, channels, 1, bias=False)

    def forward(self, x):
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(x.mean((-2, -1), keepdim=True)))))


class InvertedResidual(nn.Module):
    def __init__(self, cin, k, wide, cout, squeezed, act, stride):
        super().__init__()
        layers = [conv(cin, wide, 1, 1, act)] if wide != cin else []
        layers.append(conv(wide, wide, k, stride, act, groups=wide))
        if squeezed:
            layers.append(SqueezeExcite(wide, squeezed))
        self.block = nn.Sequential(*layers, conv(wide, cout, 1, 1, None))
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        return self.block(x) + x if self.residual else self.block(x)


class MobileNetV3Large(nn.Module):
    R, H = nn.ReLU, nn.Hardswish
    ROWS = ((16, 3, 16, 16, 0, R, 1), (16, 3, 64, 24, 0, R, 2), (24, 3, 72, 24, 0, R, 1), (24, 5, 72, 40, 24, R, 2),
            (40, 5, 120, 40, 32, R, 1), (40, 5, 120, 40, 32, R, 1), (40, 3, 240, 80, 0, H, 2), (80, 3, 200, 80, 0, H, 1),
            (80, 3, 184, 80, 0, H, 1), (80, 3, 184, 80, 0, H, 1), (80, 3, 480, 112, 120, H, 1), (112, 3, 672, 112, 168, H, 1),
            (112, 5, 672, 160, 168, H, 2), (160, 5, 960, 160, 240, H, 1), (160, 5, 960, 160, 240, H, 1))

    def __init__(self):
        super().__init__()
        blocks = (InvertedResidual(*row) for row in self.ROWS)
        self.features = nn.Sequential(conv(3, 16, 3, 2, self.H), *blocks, conv(160, 960, 1, 1, self.H))
        self.classifier = nn.Sequential(nn.Linear(960, 1280, bias=False), self.H(), nn.Identity(),
                                        nn.Linear(1280, 1000, bias=False))

    def forward(self, x):
        return self.classifier(self.features(x).mean((-2, -1)))


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256, 512)):
        super().__init__()
        double = lambda cin, cout: nn.Sequential(conv(cin, cout, 3), conv(cout, cout, 3))   # noqa: E731
        self.e = nn.ModuleList(double(a, b) for a, b in zip((3, *widths), widths))
        up = widths[::-1]
        self.u = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in itertools.pairwise(up))
        self.dc = nn.ModuleList(double(a, b) for a, b in itertools.pairwise(up))
        self.o = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for i, stage in enumerate(self.e):
            x = stage(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        skips.pop()
        for u, stage in zip(self.u, self.dc):
            x = stage(torch.cat((u(x), skips.pop()), 1))
        return self.o(x)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = conv(width, width), conv(width, width, 3)

    def forward(self, x):
        return x + self.b(self.a(x))


class CrossStage(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.a, self.b, self.c = conv(width, width // 2), conv(width, width // 2), conv(width, width)
        self.m = nn.Sequential(*(Residual(width // 2) for _ in range(depth)))

    def forward(self, x):
        return self.c(torch.cat((self.m(self.a(x)), self.b(x)), 1))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.s0 = conv(3, 32, 6, 2, padding=2)
        for i, (width, depth) in enumerate([(64, 1), (128, 2), (256, 3), (512, 1)]):
            self.add_module(f"s{i + 1}", nn.Sequential(conv(width // 2, width, 3, 2), CrossStage(width, depth)))
        self.p1, self.p2, self.u1, self.u2 = conv(512, 256), conv(512, 256, 3), conv(256, 128), conv(256, 128, 3)
        self.d1, self.e1, self.d2, self.e2 = conv(128, 128, 3, 2), conv(256, 256, 3), conv(256, 256, 3, 2), conv(512, 512, 3)
        self.h = nn.ModuleList(nn.Conv2d(width, 255, 1) for width in (128, 256, 512))

    def forward(self, x):
        twice = lambda t: F.interpolate(t, scale_factor=2, mode="nearest")   # noqa: E731
        a = self.s2(self.s1(self.s0(x)))
        b = self.s3(a)
        top = self.p1(self.s4(b))
        mid = self.u1(self.p2(torch.cat((twice(top), b), 1)))
        p3 = self.u2(torch.cat((twice(mid), a), 1))
        p4 = self.e1(torch.cat((self.d1(p3), mid), 1))
        p5 = self.e2(torch.cat((self.d2(p4), top), 1))
        return tuple(head(p) for head, p in zip(self.h, (p3, p4, p5)))
