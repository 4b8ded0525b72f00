"""Exports architectures of torchvision, timm and transformers with random weights, to meet models that nobody tuned for.

usage: PYTHON bench/architectures.py FOLDER [torchvision|timm|transformers]...
       PYTHONPATH=build/python .venv/bin/python bench/user_models.py --models FOLDER/*.onnx --engines smelt onnxruntime

PYTHON has torch 1.13 and torchvision (Debian 12: python3-torch, python3-torchvision), timm 0.9.16, transformers 4.40.2, onnx 1.16
and NumPy 1. Each model becomes FOLDER/LIBRARY.NAME.onnx with its .inputs.npz; one that is there already is kept. What a library
cannot export is said and left out. An export is given up after 150 s.
"""
import pathlib
import sys

import exports
import torch

LIMIT_S = 150
TORCHVISION = [
    "alexnet", "vgg11_bn", "resnet18", "resnext50_32x4d", "densenet121", "mnasnet1_0", "mobilenet_v2", "efficientnet_b0",
    "efficientnet_v2_s", "regnet_y_400mf", "convnext_tiny", "swin_t", "squeezenet1_1", "mobilenet_v3_small"]
TIMM = [
    "mixer_s32_224", "resmlp_12_224", "gmlp_s16_224", "poolformer_s12", "coat_lite_mini", "levit_128s", "crossvit_9_240",
    "mobilevit_xs", "edgenext_small", "ghostnet_100", "hrnet_w18_small", "efficientformer_l1", "cait_xxs24_224",
    "xcit_nano_12_p16_224", "pit_ti_224", "tnt_s_patch16_224", "twins_pcpvt_small", "pvt_v2_b0", "nest_tiny",
    "davit_tiny", "focalnet_tiny_srf", "repvgg_a2", "dla34", "dpn68", "selecsls42", "rexnet_100",
    "maxvit_rmlp_pico_rw_256", "coatnet_nano_rw_224", "eca_nfnet_l0", "bat_resnext26ts", "lambda_resnet26t",
    "botnet26t_256", "gcresnet33ts", "resnest14d", "skresnet18", "ese_vovnet19b_dw", "cspdarknet53", "lcnet_050",
    "tinynet_a", "mobileone_s0", "fastvit_t8", "repghostnet_050", "inception_next_tiny", "hardcorenas_a",
    "res2net50_26w_4s", "sequencer2d_s", "visformer_tiny", "deit3_small_patch16_224", "eva02_tiny_patch14_224",
    "efficientvit_b0", "efficientvit_m0", "tf_mobilenetv3_small_075", "mobilenetv2_050", "vit_tiny_patch16_224"]
ENCODERS = [
    "Bert", "Albert", "Roberta", "Electra", "Camembert", "XLMRoberta", "MPNet", "RoFormer", "ConvBert", "MegatronBert",
    "Ernie", "Data2VecText", "Nystromformer", "Splinter", "IBert", "SqueezeBert", "MobileBert", "DebertaV2", "Deberta",
    "RemBert"]
DECODERS = [
    "Llama", "Mistral", "Phi", "Qwen2", "Gemma", "Persimmon", "StableLm", "Olmo", "Starcoder2"]
VISION = [
    "ViT", "DeiT", "Beit", "ViTMSN", "Dinov2", "Data2VecVision", "CLIPVision", "SiglipVision"]
IMAGES = [
    "Segformer", "Swin", "Swinv2", "PoolFormer", "ConvNext", "ConvNextV2", "ResNet", "RegNet", "MobileViT", "MobileViTV2",
    "MobileNetV1", "MobileNetV2", "Cvt", "Levit", "Bit", "PvtV2", "Pvt", "FocalNet", "EfficientFormer", "SwiftFormer"]
SPEECH = [
    "Wav2Vec2", "Hubert", "WavLM", "SEW", "UniSpeech"]
SMALL = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024, "vocab_size": 1000}
EXTRA = {"Albert": {"embedding_size": 128}, "SqueezeBert": {"embedding_size": 256}, "RoFormer": {"embedding_size": 256},
         "MobileBert": {"intra_bottleneck_size": 64, "embedding_size": 64},
         "Nystromformer": {"segment_means_seq_len": 64, "num_landmarks": 16},
         "Gemma": {"head_dim": 64}}


def program(model, inputs, file):
    torch.onnx.export(model, tuple(inputs.values()), file, input_names=list(inputs), opset_version=16)
    return ""


def export(path, make, inputs, by_name):
    exports.write(path, make, inputs, by_name, program, LIMIT_S)


def torchvision(folder):
    from torchvision import models

    def add(name, kind, inputs, **options):
        export(folder / f"torchvision.{name}.onnx", lambda: getattr(kind, name)(weights=None, **options), inputs, False)

    for name in TORCHVISION:
        add(name, models, {"x": torch.randn(1, 3, 224, 224)})
    for name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
        add(name, models.segmentation, {"x": torch.randn(1, 3, 320, 320)}, weights_backbone=None)
    for name in ("r2plus1d_18", "mc3_18"):
        add(name, models.video, {"x": torch.randn(1, 3, 8, 112, 112)})
    add("raft_small", models.optical_flow, {"a": torch.randn(1, 3, 128, 160), "b": torch.randn(1, 3, 128, 160)})


def timm(folder):
    import timm as library
    for name in TIMM:
        size = library.get_pretrained_cfg(name).input_size
        export(folder / f"timm.{name}.onnx", lambda name=name: library.create_model(name, pretrained=False),
               {"x": torch.randn(1, *size)}, False)


def transformers(folder):
    import transformers as library
    ids, mask = torch.randint(5, 900, (1, 64)), torch.ones(1, 64, dtype=torch.long)

    def add(name, options, inputs):
        def make():
            return getattr(library, f"{name}Model")(getattr(library, f"{name}Config")(**options))
        export(folder / f"transformers.{name}.onnx", make, inputs, True)

    for name in ENCODERS:
        add(name, {**SMALL, **EXTRA.get(name, {})}, {"input_ids": ids, "attention_mask": mask})
    for name in DECODERS:
        add(name, {**SMALL, **EXTRA.get(name, {}), "use_cache": False}, {"input_ids": ids, "attention_mask": mask})
    vision = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 768}
    for name in VISION:
        add(name, vision, {"pixel_values": torch.randn(1, 3, 224, 224)})
    for name in IMAGES:
        add(name, {}, {"pixel_values": torch.randn(1, 3, 224, 224)})
    speech = {"hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 512,
              "num_conv_pos_embeddings": 32, "num_conv_pos_embedding_groups": 4}
    for name in SPEECH:
        add(name, speech if name == "SEW" else {**speech, "conv_dim": (64,) * 7}, {"input_values": 0.1 * torch.randn(1, 8000)})
    add("Mamba", {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2, "use_cache": False}, {"input_ids": ids[:, :32]})


LIBRARIES = {f.__name__: f for f in (torchvision, timm, transformers)}


def main():
    if len(sys.argv) < 2 or any(name not in LIBRARIES for name in sys.argv[2:]):
        sys.exit(__doc__)
    exports.begin()
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or LIBRARIES:
        LIBRARIES[name](folder)


if __name__ == "__main__":
    main()
