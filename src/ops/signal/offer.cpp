// Fourier transforms and their tactics.
#include "ops/signal/offer.h"

#include "ops/signal/family.h"

namespace smelt::ops {
namespace {

bool is_fourier(const Node& n) { return n.is("DFT") || n.is("STFT"); }

constexpr OperatorTactics operators[] = {{.handles = is_fourier, .cpu = offer_fourier_cpu, .cuda = offer_fourier_cuda}};

}  // namespace

constinit const TacticFamily signal_family{operators};

}  // namespace smelt::ops
