// What ONNX spells out in several nodes, as one each.
#pragma once

#include "fuse/match/rewrite.h"

namespace smelt::fuse {

/// The part of the pipeline that makes one node of RMSNorm, LayerNorm, GELU, SiLU and hard-swish, with what tidies a graph before. Returns
/// what matched of the first.
Ledger recognise_spelled_out(Graph& g, Options options);

}  // namespace smelt::fuse
