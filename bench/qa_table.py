"""The table that a release is checked by, of one model: times and memory unfused and fused, what was fused, and what runs it.

gpu_models.py --qa makes it of each model; alone:  python bench/qa_table.py SMELT MODEL.onnx [OPTION ...]
(OPTION: of smelt bench, profile and explain: --device gpu --inputs MODEL.inputs.npz)
"""
import collections
import json
import subprocess
import sys

MEASURES = (("average", "mean"), ("median", "median"), ("p90", "p90"))


def asked(command, verb, path, *options):
    """What `smelt VERB --json` prints. Raises RuntimeError with what it said."""
    done = subprocess.run([command, verb, path, "--json", *map(str, options)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"smelt {verb}: exit {done.returncode}: {done.stderr.strip()[-800:]}")
    return json.loads(done.stdout)


def kinds(ledger, steps):
    """[{rewrite, form, matched, configs: {what runs it: how many}}], those that matched most first.

    A step stands for what a rewrite took in where it has the last of these nodes among its sources."""
    step_of = {}
    for step in steps:
        for name in (step["name"], *step["sources"]):
            step_of.setdefault(name, step)
    found = {}
    for entry in ledger:
        if entry["result"] != "matched" or not entry["form"]:
            continue
        kind = found.setdefault((entry["rewrite"], entry["form"]), collections.Counter())
        step = next((step_of[n] for n in reversed(entry["nodes"]) if n in step_of), None)
        kind[f"{step['tactic']} {step['config']}".strip() if step else "no step of its own"] += 1
    rows = [{"rewrite": rewrite, "form": form, "matched": configs.total(), "configs": dict(configs.most_common())}
            for (rewrite, form), configs in found.items()]
    return sorted(rows, key=lambda r: -r["matched"])


def measure(command, path, options):
    """{before, after: {average_ms, median_ms, p90_ms, host_bytes, device_bytes}, verdict, fused: kinds()}"""
    bench = asked(command, "bench", path, *options)["bench"]
    steps = asked(command, "profile", path, "--optimized", "--iterations", 5, *options)["after"]["steps"]
    plain = [o for i, o in enumerate(options) if not (o == "--inputs" or (i and options[i - 1] == "--inputs"))]
    ledger = asked(command, "explain", path, *plain)["ledger"]
    row = {"verdict": bench["verdict"], "fused": kinds(ledger, steps)}
    for side in ("before", "after"):
        row[side] = {f"{name}_ms": bench[side]["ms"][key] for name, key in MEASURES}
        row[side] |= {key: bench[side][key] for key in ("host_bytes", "device_bytes")}
    return row


def table(name, row):
    """The lines that are printed of measure()'s row."""
    def change(key):
        before, after = row["before"][key], row["after"][key]
        return f"{after / before - 1:>+8.1%}" if before else f"{'-':>8}"

    lines = [f"{name:<36}{'before':>12}{'after':>12}  change"]
    for measured, _ in MEASURES:
        key = f"{measured}_ms"
        lines.append(f"  {measured + ', ms':<34}{row['before'][key]:>12.3f}{row['after'][key]:>12.3f}{change(key)}")
    for memory in ("host", "device"):
        key = f"{memory}_bytes"
        sizes = (row[side][key] / 2**20 for side in ("before", "after"))
        lines.append(f"  {memory + ' memory, MiB':<34}" + "".join(f"{size:>12.1f}" for size in sizes) + change(key))
    lines.append(f"  {row['verdict']}")
    lines.append(f"  {'what was fused':<34}{'subgraphs':>12}  run by")
    for kind in row["fused"]:
        configs = [f"{count} x {config}" for config, count in kind["configs"].items()]
        lines.append(f"  {kind['rewrite'] + ': ' + kind['form']:<34}{kind['matched']:>12}  {configs[0]}")
        lines += [" " * 50 + config for config in configs[1:]]
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print(table(sys.argv[2], measure(sys.argv[1], sys.argv[2], sys.argv[3:])))
