// Fourier transforms, and the windows and filters around them: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> fourier_ops();  // DFT, STFT
std::span<const OpRow> signal_ops();   // windows, MelWeightMatrix

extern const TacticFamily signal_family;  // offer.cpp

}  // namespace smelt::ops
