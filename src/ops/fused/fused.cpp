// The fused operators' rows of the registry (docs/fused-ops.md).
#include "ops/fused/reference.h"
#include "ops/registry/operators.h"

namespace smelt::ops {

std::span<const OpDef> fused_ops() {
  static constexpr OpDef table[] = {
      {"Conv", smelt_domain, infer_fused_conv, run_fused_conv},
      {"QLinearConv", smelt_domain, infer_fused_qlinear_conv, run_fused_qlinear_conv},
      {"MatMul", smelt_domain, infer_fused_matmul, run_fused_matmul},
      {"QLinearMatMul", smelt_domain, infer_fused_qlinear_matmul, run_fused_qlinear_matmul},
      {"Norm", smelt_domain, infer_norm, run_norm},
      {"Attention", smelt_domain, infer_attention, run_attention},
      {"RotaryEmbedding", smelt_domain, infer_fused_rotary, run_fused_rotary},
      {"Pointwise", smelt_domain, infer_pointwise, run_pointwise},
      {"Reduce", smelt_domain, infer_reduce, run_reduce},
  };
  return table;
}

}  // namespace smelt::ops
