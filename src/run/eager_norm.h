// Layer and RMS normalisation of single tensors, run at once and without a graph around them (smelt.ops in Python): the kernels
// that plans run, chosen the same way.
#pragma once

#include "smelt/session.h"

namespace smelt::run {

struct EagerNorm {
  bool centre = false;  // layer normalisation; not: root mean square
  float epsilon = 1e-5f;
};

/// With s = x + residual (s = x where that is not valid()), over the last axis:
///   y = (s - mean(s) if centred) / sqrt(mean of its squares + epsilon) · weight + bias
/// x, y, residual and sum (n…, d), dense, of one type among f32, f16 and bf16; weight and bias (d), of any of these, left out
/// where not valid(). `sum` gets s where it is valid(). All lie in the host's memory, or all on one GPU: the kernel is put on
/// `stream` (a CUstream) then and not waited for. Computes in f32.
///
/// A problem's kernel is chosen at its first call, by measuring where the tuning cache does not know it, and kept for the process.
/// Thread-safe. Throws Error (usage) for tensors that do not fit together, and for a first call on a stream that is being captured.
void eager_norm(const EagerNorm& how, const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                Tensor& y, Tensor& sum, void* stream);

}  // namespace smelt::run
