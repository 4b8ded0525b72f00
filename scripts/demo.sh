#!/usr/bin/env bash
# Optimises two real graphs, proves the speed-up and writes a report for each. usage: demo.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
build=$1 models=demo/models
smelt=$build/smelt
mkdir -p "$models"
[ -e "$models/unet.fp32.plan.onnx" ] || needs_room 1 "$models" "the demo"
for name in resnet50.fp32 unet.fp32; do
  if [ ! -e "$models/$name.inputs.npz" ]; then
    step "filling $name with repeatable weights"
    .venv/bin/python examples/models/fill.py "examples/models/$name.onnx" "$models"
  fi
done

step "measuring what this machine can do"
unproven=""
"$smelt" devices --measure

for name in unet.fp32 resnet50.fp32; do
  report=demo/report.html
  [ $name = unet.fp32 ] && report=demo/unet.html
  echo
  step "$name: what was fused, and what was not"
  "$smelt" explain "$models/$name.onnx" --summary
  step "$name: optimised against unfused, timed in turn"
  "$smelt" bench "$models/$name.onnx" --inputs "$models/$name.inputs.npz" --duration 5 --require-speedup --report "$report" || {
    [ $? = 5 ] && [ -e "$report" ] || die "$name could not be timed; the error is above"
    unproven="$unproven $name"
  }
  "$smelt" optimize "$models/$name.onnx" -o "$models/$name.plan.onnx"
done
printf '\nOpen demo/report.html (resnet50) and demo/unet.html in a browser. The plans are in %s.\n' "$models"
[ -z "$unproven" ] || die "no speed-up was proven for$unproven; other work on this machine disturbs the measurement, so run it again when it is quiet"
