"""Small models of kinds that bench/user_kinds.py and bench/architectures.py do not have, with random weights, each by both
exporters of PyTorch: words spotted, waves cut by U-Nets and TCNs, recurrent memories, graphs with attention, sets, capsules,
operators in the spectrum, fields, trackers whose weights are inputs, forecasts, codes.

usage: PYTHONPATH=LIBRARIES .venv/bin/python bench/small_kinds.py FOLDER [NAME]...
       PYTHONPATH=build/python .venv/bin/python bench/user_models.py --models FOLDER/*.onnx --engines smelt onnxruntime

LIBRARIES: as bench/new_exporter.py's. Each becomes FOLDER/NAME.old.onnx and FOLDER/NAME.new.onnx with .inputs.npz; one that is
there is kept. What cannot be exported in 120 s is said and left out.
"""

import exports
import small_kinds_images as images
import small_kinds_sequences as sequences
import torch

LIMIT_S = 120


def inputs():
    r, i = torch.randn, torch.randint
    return {
        sequences.words_spotted: (r(1, 1, 49, 10),),
        sequences.broadcast_residuals: (r(1, 1, 40, 101),),
        sequences.wave_unet: (r(1, 1, 4096),),
        sequences.masked_tcn: (r(1, 1, 8000),),
        sequences.enhancer: (r(1, 8000),),
        sequences.relative_memory: (r(1, 32, 128), r(1, 64, 128)),
        sequences.graph_attention: (r(700, 100), i(0, 700, (2, 4001))),
        sequences.edge_convolutions: (r(1, 3, 256),),
        sequences.sets: (r(4, 100, 3),),
        images.capsules: (r(1, 1, 20, 28),),
        images.mixer: (r(1, 3, 144, 144),),
        images.rolled_windows: (r(1, 3, 120, 168),),
        images.denoiser: (r(1, 3, 32, 32), r(1)),
        images.spectral_operator: (r(2, 256, 2),),
        images.field: (r(2048, 3),),
        images.tracker: (r(1, 3, 63, 63), r(1, 3, 127, 127)),
        images.recurrent_images: (r(1, 6, 1, 32, 32),),
        images.heat_maps: (r(1, 3, 96, 128),),
        images.text_in_images: (r(1, 1, 32, 128),),
        sequences.forecaster: (r(7, 96),),
        sequences.codes: (r(1, 1, 4000),),
        sequences.state_space: (r(1, 24, 32),),
        images.residual_volumes: (r(1, 2, 16, 24, 20),),
        sequences.searched_words: (i(0, 5000, (3, 40)), i(0, 5000, (50, 20))),
        sequences.random_features: (r(1, 200, 64),),
        sequences.frozen_pairs: (i(0, 1000, (64, 20)),),
    }


def program(new):
    def export(model, given, file):
        torch.onnx.export(
            model, tuple(given.values()), file, input_names=list(given), dynamo=new, **({} if new else {"opset_version": 17})
        )
        return ""

    return export


def main():
    folder, wanted = exports.asked_for(__doc__)
    exports.begin()
    for make, given in inputs().items():
        if not wanted or make.__name__ in wanted:
            for way in ("old", "new"):
                exports.write(
                    folder / f"{make.__name__}.{way}.onnx",
                    make,
                    {f"in{n}": t for n, t in enumerate(given)},
                    False,
                    program(way == "new"),
                    LIMIT_S,
                )


if __name__ == "__main__":
    main()
