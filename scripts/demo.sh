#!/usr/bin/env bash
# Optimises two real graphs, proves the speed-up and writes a report for each. usage: demo.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 models=demo/models
smelt=$build/smelt
mkdir -p "$models"
for name in resnet50.fp32 unet.fp32; do
  if [ ! -e "$models/$name.inputs.npz" ]; then
    printf '==> filling %s with repeatable weights\n' "$name"
    .venv/bin/python examples/models/fill.py "examples/models/$name.onnx" "$models"
  fi
done

printf '==> measuring what this machine can do\n'
"$smelt" devices --measure

for name in unet.fp32 resnet50.fp32; do
  report=demo/report.html
  [ $name = unet.fp32 ] && report=demo/unet.html
  printf '\n==> %s: what was fused, and what was not\n' "$name"
  "$smelt" explain "$models/$name.onnx" --summary
  printf '==> %s: optimised against unfused, timed in turn\n' "$name"
  "$smelt" bench "$models/$name.onnx" --inputs "$models/$name.inputs.npz" --duration 5 --require-speedup --report "$report"
  "$smelt" optimize "$models/$name.onnx" -o "$models/$name.plan.onnx"
done
printf '\nOpen demo/report.html (resnet50) and demo/unet.html in a browser. The plans are in %s.\n' "$models"
