// The quantisation family's table.
#include "ops/quantize/quantize.h"

#include "ops/core/expression.h"
#include "ops/core/flops.h"
#include "ops/quantize/family.h"

namespace smelt::ops {

namespace {

using expr::Fn;

/// The expression is that of one scale; with a scale for each channel or block they are not pointwise.
constexpr Facts linear(Expression e) {
  return {.shape = OutShape::input, .expression = e, .flops = {.of_input = 2}, .autocast = Autocast::fp32};
}
constexpr Facts quantize_facts = linear({Fn::select, write_quantize, 2, mixed_types});
constexpr Facts dequantize_facts = linear({Fn::select, write_dequantize, 2, mixed_types});

}  // namespace

std::span<const OpRow> quant_ops() {
  static constexpr OpRow table[] = {
      {{"QuantizeLinear", onnx_domain, infer_quantize, run_quantize}, quantize_facts},
      {{"DequantizeLinear", onnx_domain, infer_dequantize, run_dequantize}, dequantize_facts},
      {{"DynamicQuantizeLinear", onnx_domain, infer_dynamic_quantize, run_dynamic_quantize},
       {.shape = OutShape::input, .flops = {.of_input = 4}, .autocast = Autocast::fp32, .expands_on_gpu = true}},
      {{"QuantizeLinear", microsoft_domain, infer_quantize, run_quantize}, linear({})},
      {{"DequantizeLinear", microsoft_domain, infer_dequantize, run_dequantize}, linear({})},
      {{"QLinearSigmoid", microsoft_domain, infer_qlinear, run_qlinear},
       {.shape = OutShape::input, .autocast = Autocast::no_form}},
      {{"QLinearLeakyRelu", microsoft_domain, infer_qlinear, run_qlinear},
       {.shape = OutShape::input, .autocast = Autocast::no_form}},
      {{"QLinearSoftmax", microsoft_domain, infer_qlinear, run_qlinear},
       {.shape = OutShape::input, .autocast = Autocast::no_form}},
      {{"QLinearAveragePool", microsoft_domain, infer_qlinear, run_qlinear},
       {.flops = {.count = pool_flops}, .autocast = Autocast::no_form}},
      {{"QLinearGlobalAveragePool", microsoft_domain, infer_qlinear, run_qlinear},
       {.flops = {.of_input = 1}, .autocast = Autocast::no_form}},
      {{"QLinearReduceMean", microsoft_domain, infer_qlinear, run_qlinear}, {.autocast = Autocast::no_form}},
      {{"QLinearAdd", microsoft_domain, infer_qlinear, run_qlinear}, {.autocast = Autocast::no_form}},
      {{"QLinearMul", microsoft_domain, infer_qlinear, run_qlinear}, {.autocast = Autocast::no_form}},
      {{"QLinearWhere", microsoft_domain, infer_qlinear, run_qlinear}, {.autocast = Autocast::no_form}},
      {{"QLinearConcat", microsoft_domain, infer_qlinear, run_qlinear}, {.autocast = Autocast::no_form}},
  };
  return table;
}

}  // namespace smelt::ops
