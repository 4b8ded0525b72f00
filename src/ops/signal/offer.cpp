// Fourier transforms, windows and filters, and their tactics.
#include "ops/signal/offer.h"

#include "ops/signal/family.h"

namespace smelt::ops {
namespace {

bool is_fourier(const Node& n) { return n.is("DFT") || n.is("STFT"); }
bool is_window(const Node& n) { return n.is("HannWindow") || n.is("HammingWindow") || n.is("BlackmanWindow"); }
bool is_mel(const Node& n) { return n.is("MelWeightMatrix"); }

constexpr OperatorTactics operators[] = {
    {.handles = is_fourier, .cpu = offer_fourier_cpu, .cuda = offer_fourier_cuda},
    {.handles = is_window, .cpu = offer_window_cpu, .cuda = nullptr},
    {.handles = is_mel, .cpu = offer_mel_cpu, .cuda = nullptr},
};

}  // namespace

constinit const TacticFamily signal_family{operators};

}  // namespace smelt::ops
