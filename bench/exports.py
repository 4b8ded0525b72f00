"""What architectures.py, new_exporter.py and user_kinds.py share: models with random weights become files beside their inputs.
Runs with PyTorch 1.13 and later."""
import pathlib
import signal
import sys
import warnings

import numpy as np
import onnx
import torch


class Outputs(torch.nn.Module):
    """A model whose outputs are its first two tensors; its inputs go by their names where it has such."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs, strict=True))) if self.names else self.model(*inputs)
        out = out.to_tuple() if hasattr(out, "to_tuple") else list(out.values()) if isinstance(out, dict) else out
        if torch.is_tensor(out):
            return out
        return tuple(x for x in out if torch.is_tensor(x))[:2]


def give_up(*_):
    raise TimeoutError("not exported in time")


def begin():
    """Once, before the first write()."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, give_up)


def asked_for(usage):
    """The folder of the command line, which is made, and the set of names behind it; without a folder the usage, and the end."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    return folder, set(sys.argv[2:])


def write(path, make, inputs, by_name, export, limit_s):
    """Writes make()'s model and its inputs, a dictionary of tensors, unless they are there. export(model, inputs, file) writes
    the file, and returns what is to be said of it. What a library cannot export in `limit_s` seconds is said and left out."""
    if path.exists():
        return
    part = path.with_suffix(".part")
    signal.alarm(limit_s)
    try:
        model = Outputs(make().eval(), list(inputs) if by_name else None).eval()
        with torch.no_grad():
            remark = export(model, inputs, str(part))
        used = {i.name for i in onnx.load(str(part), load_external_data=False).graph.input}
        np.savez(path.with_suffix(".inputs.npz"), **{n: x.numpy() for n, x in inputs.items() if n in used})
        part.rename(path)
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB{remark}", flush=True)
    except Exception as e:   # whatever a library raises
        print(f"{path.name}: {type(e).__name__}: {str(e).splitlines()[0][:100] if str(e) else ''}", flush=True)
    finally:
        signal.alarm(0)
        part.unlink(missing_ok=True)
