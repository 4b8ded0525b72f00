// RandomNormal, RandomUniform and their Like forms, Bernoulli, Multinomial, Dropout. Not deterministic without a seed, so never
// folded.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/core/expression.h"
#include "ops/core/list_inputs.h"
#include "ops/reference_only/family.h"
#include "ops/reference_only/random_generator.h"

namespace smelt::ops {

using expr::Fn;
namespace {

DType dtype_or(const Node& node, DType otherwise) {
  const int64_t t = node.get_int("dtype", 0);
  return t == 0 ? otherwise : static_cast<DType>(t);
}

/// Fills output 0, whatever its type, with draw() for each element.
template <class F> void fill(ComputeContext& c, F&& draw) {
  Tensor& y = c.outputs[0];
  constexpr int64_t block = 1 << 12;  // a multiple of what lies in a byte
  for (int64_t i = 0; i < y.size(); i += block) {
    Tensor wide = Tensor::empty(DType::f64, {std::min(block, y.size() - i)});
    for (double& v : wide.span<double>()) v = draw();
    const Tensor result = wide.cast(y.type());
    std::memcpy(static_cast<char*>(y.raw()) + bytes(y.type(), i), result.raw(), static_cast<size_t>(result.nbytes()));
  }
}

void infer_random(InferContext& c) {
  Shape shape = c.node.get_ints("shape");
  elements(shape);  // throws for a negative extent
  c.set(0, dtype_or(c.node, DType::f32), std::move(shape));
}
void infer_like(InferContext& c) { c.set(0, dtype_or(c.node, type_of(c, 0)), c.shape(0)); }

void run_normal(ComputeContext& c) {
  Generator g(c.node);
  const double mean = c.node.get_float("mean", 0), scale = c.node.get_float("scale", 1);
  fill(c, [&] { return mean + scale * g.normal(); });
}

void run_uniform(ComputeContext& c) {
  Generator g(c.node);
  const double low = c.node.get_float("low", 0), high = c.node.get_float("high", 1);
  fill(c, [&] { return low + (high - low) * g.uniform(); });
}

void run_bernoulli(ComputeContext& c) {
  Generator g(c.node);
  const std::vector<double> p = c.in(0).to_doubles();
  size_t i = 0;
  fill(c, [&] { return g.uniform() < p[i++] ? 1.0 : 0.0; });
}

void infer_multinomial(InferContext& c) {
  const Shape& x = c.shape(0);
  const int64_t samples = c.node.get_int("sample_size", 1);
  if (x.size() != 2 || x[1] < 1) fail("the input has shape {}, expected [batch, classes]", to_string(x));
  if (samples < 1) fail("sample_size is {}, expected at least 1", samples);
  c.set(0, dtype_or(c.node, DType::i32), {x[0], samples});
}

void run_multinomial(ComputeContext& c) {
  Generator g(c.node);
  const std::vector<double> logs = c.in(0).to_doubles();
  const int64_t classes = c.in(0).shape()[1], samples = c.outputs[0].shape()[1];
  std::vector<double> sums(static_cast<size_t>(classes));
  int64_t drawn = 0;
  fill(c, [&] {
    if (drawn % samples == 0) {  // a new row: its cumulative distribution
      const double* row = logs.data() + drawn / samples * classes;
      const double largest = *std::max_element(row, row + classes);
      double sum = 0;
      for (size_t k = 0; k < sums.size(); ++k) sums[k] = sum += std::exp(row[k] - largest);
    }
    ++drawn;
    const double target = g.uniform() * sums.back();
    const auto at = std::upper_bound(sums.begin(), sums.end() - 1, target);
    return static_cast<double>(at - sums.begin());
  });
}

void infer_dropout(InferContext& c) {
  same_as(c, 0, 0);
  c.set(1, DType::boolean, c.shape(0));
}

// inputs: data, ratio?, training_mode?; before opset 12 the ratio was an attribute and never applied in inference
void run_dropout(ComputeContext& c) {
  const bool training = c.has(2) && c.in(2).to_ints().at(0) != 0;
  const double ratio = c.has(1) ? c.in(1).to_doubles().at(0) : 0.5;
  bool* mask = c.outputs.size() > 1 && c.wants(1) ? c.outputs[1].data<bool>() : nullptr;
  if (!training || ratio == 0) {
    std::memcpy(c.outputs[0].raw(), c.in(0).raw(), static_cast<size_t>(c.in(0).nbytes()));
    if (mask) std::fill(mask, mask + c.outputs[1].size(), true);
    return;
  }
  if (!(ratio > 0 && ratio < 1)) fail("ratio is {}, expected 0 to less than 1", ratio);
  Generator g(c.node);
  const std::vector<double> x = c.in(0).to_doubles();
  size_t i = 0;
  fill(c, [&] {
    const bool keep = g.uniform() >= ratio;
    if (mask) mask[i] = keep;
    const double v = x[i++];
    return keep ? v / (1 - ratio) : 0.0;
  });
}

}  // namespace

std::span<const OpRow> random_ops() {
  static constexpr OpRow table[] = {
      {{"RandomNormal", onnx_domain, infer_random, run_normal, false}, {.autocast = Autocast::fp32}},
      {{"RandomNormalLike", onnx_domain, infer_like, run_normal, false}, {.shape = OutShape::input, .autocast = Autocast::fp32}},
      {{"RandomUniform", onnx_domain, infer_random, run_uniform, false}, {.autocast = Autocast::fp32}},
      {{"RandomUniformLike", onnx_domain, infer_like, run_uniform, false},
       {.shape = OutShape::input, .autocast = Autocast::fp32}},
      {{"Bernoulli", onnx_domain, infer_like, run_bernoulli, false},
       {.shape = OutShape::input, .autocast = Autocast::fp32, .expands_on_gpu = true}},
      {{"Multinomial", onnx_domain, infer_multinomial, run_multinomial, false},
       {.autocast = Autocast::fp32, .expands_on_gpu = true}},
      {{"Dropout", onnx_domain, infer_dropout, run_dropout, false},
       elementwise({Fn::select, write_dropout}, {.shape = OutShape::input_all, .operands = 1, .flops = no_flops})},
  };
  return table;
}

}  // namespace smelt::ops
