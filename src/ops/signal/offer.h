// The tactics of Fourier transforms, windows and filters.
#pragma once

#include "ops/core/family.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_fourier_cpu(const BoundNode& b, const Machine& machine, Offer& offer);   // "cpu": cpu_fourier.cpp, DFT and STFT
void offer_window_cpu(const BoundNode& b, const Machine& machine, Offer& offer);    // "cpu": cpu_windows.cpp
void offer_mel_cpu(const BoundNode& b, const Machine& machine, Offer& offer);       // "cpu": cpu_windows.cpp
void offer_fourier_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_fourier.cpp, likewise

}  // namespace smelt::ops
