// The quantisation family's table.
#include "ops/quantize/quantize.h"

#include "ops/quantize/family.h"

namespace smelt::ops {

std::span<const OpDef> quant_ops() {
  static constexpr OpDef table[] = {
      {"QuantizeLinear", onnx_domain, infer_quantize, run_quantize},
      {"DequantizeLinear", onnx_domain, infer_dequantize, run_dequantize},
      {"DynamicQuantizeLinear", onnx_domain, infer_dynamic_quantize, run_dynamic_quantize},
      {"QuantizeLinear", microsoft_domain, infer_quantize, run_quantize},
      {"DequantizeLinear", microsoft_domain, infer_dequantize, run_dequantize},
      {"QLinearSigmoid", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearLeakyRelu", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearSoftmax", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearAveragePool", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearGlobalAveragePool", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearReduceMean", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearAdd", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearMul", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearWhere", microsoft_domain, infer_qlinear, run_qlinear},
      {"QLinearConcat", microsoft_domain, infer_qlinear, run_qlinear},
  };
  return table;
}

}  // namespace smelt::ops
