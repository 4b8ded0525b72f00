"""Exports architectures with random weights by PyTorch's newer exporter (torch.export, opset 18 and later), which decomposes and
names operators otherwise than the one of bench/architectures.py.

usage: PYTHONPATH=LIBRARIES .venv/bin/python bench/new_exporter.py FOLDER [NAME]...
       PYTHONPATH=build/python .venv/bin/python bench/user_models.py --models FOLDER/*.onnx --engines smelt onnxruntime

LIBRARIES: pip install --no-deps --target LIBRARIES torchvision==0.26.0 timm onnxscript onnx_ir pillow 'transformers<5'
'tokenizers==0.22.2' safetensors 'huggingface_hub<1' 'diffusers<0.36' regex requests tqdm pyyaml packaging charset_normalizer idna
urllib3 certifi hf-xet importlib_metadata zipp httpx, for torch 2.11. NAME: tv.resnet18, hf.Bert, …; without any: all. Each
becomes FOLDER/NAME.onnx with its .inputs.npz; one that is there is kept. The first axis of inputs is dynamic where the model can
be exported so. What a library cannot export in 120 s is said and left out.
"""

import exports
import torch

LIMIT_S = 120
TORCHVISION = ("resnet18", "mobilenet_v3_small", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny", "swin_t", "vit_b_32",
               "maxvit_t", "shufflenet_v2_x1_0", "densenet121", "googlenet", "swin_v2_t")
TIMM = ("mobilenetv4_conv_small", "fastvit_t8", "efficientvit_b1", "mambaout_femto", "hiera_tiny_224", "convnextv2_atto",
        "tiny_vit_5m_224", "starnet_s1", "rdnet_tiny", "efficientformerv2_s0", "repvit_m1", "nextvit_small", "edgenext_xx_small",
        "ghostnetv2_100", "levit_128s", "hgnetv2_b0", "shvit_s1")
ENCODERS = ("Bert", "ModernBert", "DebertaV2", "Roberta", "Electra", "MPNet", "XLMRoberta", "FNet", "RoFormer", "MobileBert")
DECODERS = ("Llama", "Qwen2", "Qwen3", "Gemma2", "Phi3", "Mistral", "Olmo2", "Cohere", "GPTNeoX", "Granite", "Starcoder2",
            "StableLm", "Falcon")
IMAGES = ("ViT", "Dinov2", "SiglipVision", "CLIPVision", "Beit", "Dinov2WithRegisters")
SPEECH = ("Wav2Vec2", "Hubert", "WavLM", "UniSpeechSat")
SMALL = {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 768, "vocab_size": 1000}
GROUPED = {"Llama", "Qwen2", "Qwen3", "Gemma2", "Phi3", "Mistral", "Olmo2", "Granite", "Starcoder2"}


class Spectrum(torch.nn.Module):
    def forward(self, x):
        spectrum = torch.stft(x, 400, 160, window=torch.hann_window(400), return_complex=True)
        return torch.log10(torch.clamp(spectrum.abs() ** 2, min=1e-10))


class Sequences(torch.nn.Module):
    def forward(self, x):
        values, places = torch.topk(x, 8, -1)
        return torch.cat([values, torch.cumsum(x, -1), torch.sort(x, -1)[0], torch.gather(x, -1, places), torch.roll(x, 3, -1),
                          torch.flip(x, [-1]), torch.logsumexp(x, -1, keepdim=True), x.var(-1, keepdim=True)], -1)


class Samples(torch.nn.Module):
    def forward(self, x, grid):
        halved = torch.nn.functional.avg_pool2d(x, 2)
        return torch.nn.functional.grid_sample(x, grid, align_corners=False) + torch.nn.functional.interpolate(
            halved, scale_factor=2, mode="bicubic")


def modules():
    """PyTorch's own. As of the others: names, what makes it, its inputs by name, whether they go by their names."""
    encoder = torch.nn.TransformerEncoderLayer
    yield "pt.gru", (lambda: torch.nn.GRU(40, 64, 2, batch_first=True), {"x": torch.randn(1, 50, 40)}, False)
    yield "pt.transformer", (lambda: torch.nn.TransformerEncoder(encoder(128, 4, 256, batch_first=True), 2),
                             {"x": torch.randn(1, 60, 128)}, False)
    yield "pt.spectrum", (Spectrum, {"x": torch.randn(1, 16000)}, False)
    yield "pt.sequences", (Sequences, {"x": torch.randn(64, 256)}, False)
    yield "pt.samples", (Samples, {"x": torch.randn(1, 32, 64, 64), "grid": torch.rand(1, 64, 64, 2) * 2 - 1}, False)


def images():
    """torchvision's and timm's."""
    import timm
    from torchvision import models
    for name in TORCHVISION:
        yield f"tv.{name}", (lambda name=name: getattr(models, name)(weights=None), {"x": torch.randn(1, 3, 224, 224)}, False)
    for name in TIMM:
        size = timm.get_pretrained_cfg(name).input_size
        yield f"timm.{name}", (lambda name=name: timm.create_model(name, pretrained=False), {"x": torch.randn(1, *size)}, False)


def transformers():
    import transformers as library
    ids, mask = torch.randint(5, 900, (1, 48)), torch.ones(1, 48, dtype=torch.long)

    def model(name, options, inputs):
        kind, config = getattr(library, f"{name}Model"), getattr(library, f"{name}Config")
        return f"hf.{name}", (lambda: kind(config(**options)), inputs, True)

    for name in ENCODERS:
        ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
        yield model(name, {**SMALL, **(ends if name == "ModernBert" else {})}, {"input_ids": ids, "attention_mask": mask})
    for name in DECODERS:
        heads = {"num_key_value_heads": 2} if name in GROUPED else {}
        size = {"head_dim": 64} if name in ("Qwen3", "Gemma2") else {}
        yield model(name, {**SMALL, **heads, **size, "use_cache": False, "pad_token_id": 0},
                    {"input_ids": ids, "attention_mask": mask})
    vision = {"hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 768}
    for name in IMAGES:
        yield model(name, vision, {"pixel_values": torch.randn(1, 3, 224, 224)})
    speech = {**vision, "num_attention_heads": 4, "conv_dim": (64,) * 7, "num_conv_pos_embeddings": 32,
              "num_conv_pos_embedding_groups": 4}
    for name in SPEECH:
        yield model(name, speech, {"input_values": 0.1 * torch.randn(1, 8000)})


def diffusers():
    import diffusers as library
    blocks = {"block_out_channels": (64, 128), "layers_per_block": 1, "norm_num_groups": 16, "cross_attention_dim": 64,
              "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
    image, text = torch.randn(1, 4, 32, 32), torch.randn(1, 77, 64)
    yield "df.unet", (lambda: library.UNet2DConditionModel(sample_size=32, **blocks),
                      {"sample": image, "timestep": torch.tensor([7]), "encoder_hidden_states": text}, True)
    attention = {"num_attention_heads": 4, "attention_head_dim": 32, "joint_attention_dim": 64, "pooled_projection_dim": 64}
    yield "df.flux", (lambda: library.FluxTransformer2DModel(in_channels=16, num_layers=1, num_single_layers=2,
                                                             axes_dims_rope=(8, 12, 12), **attention),
                      {"hidden_states": torch.randn(1, 256, 16), "encoder_hidden_states": text[:, :32],
                       "pooled_projections": torch.randn(1, 64), "timestep": torch.tensor([0.5]), "img_ids": torch.zeros(256, 3),
                       "txt_ids": torch.zeros(32, 3)}, True)


def program(model, inputs, file):
    """With the inputs' first axis dynamic where that can be."""
    tensors, options = tuple(inputs.values()), {"dynamo": True, "input_names": list(inputs), "verbose": False}
    remark = ", dynamic"
    try:
        twice = tuple(torch.cat([t, t]) for t in tensors)
        dynamic = (tuple({0: torch.export.Dim.DYNAMIC} for _ in tensors),)
        made = torch.onnx.export(model, twice, dynamic_shapes=dynamic, **options)
    except TimeoutError:
        raise
    except Exception:   # whatever does not allow it
        made, remark = torch.onnx.export(model, tensors, **options), ""
    made.save(file, external_data=False)
    return remark


SOURCES = {("pt.",): modules, ("df.",): diffusers, ("hf.",): transformers, ("tv.", "timm."): images}


def main():
    folder, wanted = exports.asked_for(__doc__)
    exports.begin()
    for prefixes, source in SOURCES.items():
        if wanted and not any(name.startswith(prefixes) for name in wanted):
            continue   # nor are its libraries imported
        for name, (make, inputs, by_name) in source():
            if not wanted or name in wanted:
                exports.write(folder / f"{name}.onnx", make, inputs, by_name, program, LIMIT_S)


if __name__ == "__main__":
    main()
