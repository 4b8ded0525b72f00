// --precision: converts an fp32 graph to half width, with Casts around what must stay fp32.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fuse/match/rewrite.h"
#include "graph/graph.h"

namespace smelt::fuse {

/// What a conversion did, for the line that is printed after it.
struct PrecisionSummary {
  int64_t converted = 0;  // nodes that now compute in the new type
  int64_t kept = 0;       // nodes with fp32 inputs or outputs that stay fp32
  int64_t casts = 0;      // inserted
  Ledger recognised;      // what was spelled out and became one node first
};

struct Converting {
  /// The graph is to be fused with these options. What ONNX spells out in several nodes (RMSNorm, LayerNorm, GELU, SiLU), some of
  /// which would stay fp32 and keep the others from being recognised, then becomes the one node first, which converts as a whole.
  const Options* fusing = nullptr;
  /// Large constants get the new type, and no values: what a graph's structure alone is wanted for.
  bool structure_only = false;
};

/// `precision`: "fp16", "bf16" or "tf32" ("" and "fp32" change nothing). The graph's inputs and outputs keep their types.
/// Constants are converted: a finite value stays finite, and a value other than zero stays other than zero.
///
/// A node stays fp32 when its name, the name of an ONNX node it stands for, or a module scope of one matches a pattern of
/// `keep_fp32` (* any characters, ? one); when ONNX does not define it for the type; when it has a body (If, Loop, Scan) or a
/// quantised type; when its row says so (Autocast::fp32: Pow, Exp, reductions, …); or when it is pointwise between such
/// nodes.
///
/// tf32 changes no type: it lets tactics round the inputs of matrix products to 10 bits of mantissa, and is written into
/// the graph's metadata ("smelt.precision"). Throws Error (usage): no such precision, or a pattern that matches nothing.
PrecisionSummary convert_precision(Graph& g, std::string_view precision, const std::vector<std::string>& keep_fp32 = {},
                                   const Converting& how = {});

}  // namespace smelt::fuse
