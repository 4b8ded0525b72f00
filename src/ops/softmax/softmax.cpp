// Softmax and LogSoftmax along an axis, and the losses built on them.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/softmax/family.h"

namespace smelt::ops {
namespace {

void infer_same(InferContext& c) { same_as(c, 0, 0); }

/// Before opset 13 the axis (1 by default) began the block of axes that is normalised together.
AxisView softmax_view(const Node& node, const Shape& shape) {
  const int64_t rank = static_cast<int64_t>(shape.size());
  const bool flattens = node.opset > 0 && node.opset < 13;
  const int64_t given = node.get_int("axis", flattens ? 1 : -1);
  if (rank == 0) return {};
  if (flattens && given == rank) return {elements(shape), 1, 1};
  AxisView v = around_axis(shape, normalize_axis(given, rank));
  if (flattens) v = {v.outer, v.extent * v.inner, 1};
  return v;
}

template <class T> void log_softmax(const AxisView& v, const T* x, T* y, bool exponentiate) {
  for (int64_t o = 0; o < v.outer; ++o) {
    for (int64_t i = 0; i < v.inner; ++i) {
      const int64_t start = o * v.extent * v.inner + i;
      const auto at = [&](int64_t k) { return static_cast<double>(x[start + k * v.inner]); };
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < v.extent; ++k) largest = std::max(largest, at(k));
      for (int64_t k = 0; k < v.extent; ++k) sum += std::exp(at(k) - largest);
      const double log_sum = std::log(sum);  // taken away last: it vanishes in a largest value above 2^53
      for (int64_t k = 0; k < v.extent; ++k) {
        const double log = at(k) - largest - log_sum;
        y[start + k * v.inner] = static_cast<T>(exponentiate ? std::exp(log) : log);
      }
    }
  }
}

void run_softmax(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    log_softmax(softmax_view(c.node, c.in(0).shape()), c.in(0).data<T>(), c.outputs[0].data<T>(), c.node.op == "Softmax");
  });
}

// --- NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss: scores [N, C, D…], labels [N, D…], weights [C] ---

void infer_loss(InferContext& c) {
  const Shape &x = c.shape(0), &labels = c.shape(1);
  if (x.size() < 2) fail("scores have shape {}, expected [N, C, …]", to_string(x));
  Shape expected = x;
  expected.erase(expected.begin() + 1);
  if (labels != expected) fail("labels have shape {}, expected {}", to_string(labels), to_string(expected));
  if (c.has(2) && c.shape(2) != Shape{x[1]}) fail("weights have shape {}, expected [{}]", to_string(c.shape(2)), x[1]);
  const std::string reduction = c.node.get_string("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    fail("reduction is '{}', expected mean, sum or none", reduction);
  c.set(0, type_of(c, 0), reduction == "none" ? expected : Shape{});
  c.set(1, type_of(c, 0), x);
}

template <class T> void negative_log_likelihood(ComputeContext& c, const T* log_probability) {
  const AxisView v = around_axis(c.in(0).shape(), 1);
  const std::vector<int64_t> labels = c.in(1).to_ints();
  const T* weights = optional_data<T>(c, 2);
  const bool ignores = c.node.has("ignore_index");
  const int64_t ignored = c.node.get_int("ignore_index", 0);
  const std::string reduction = c.node.get_string("reduction", "mean");
  T* y = c.outputs[0].data<T>();
  double total = 0, weight_total = 0;
  for (int64_t i = 0; i < v.outer * v.inner; ++i) {
    const int64_t label = labels[static_cast<size_t>(i)];
    double loss = 0;
    if (!ignores || label != ignored) {
      if (label < 0 || label >= v.extent) fail("label {} is outside [0, {})", label, v.extent);
      const double weight = weights ? static_cast<double>(weights[label]) : 1;
      loss = -weight * static_cast<double>(log_probability[(i / v.inner * v.extent + label) * v.inner + i % v.inner]);
      weight_total += weight;
    }
    total += loss;
    if (reduction == "none") y[i] = static_cast<T>(loss);
  }
  if (reduction == "sum") y[0] = static_cast<T>(total);
  // Ignored samples count in neither sum, with and without weights.
  if (reduction == "mean") y[0] = static_cast<T>(total / weight_total);
}

void run_nll_loss(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    negative_log_likelihood<T>(c, c.in(0).data<T>());
  });
}

void run_softmax_loss(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    std::vector<T> log(static_cast<size_t>(c.in(0).size()));
    log_softmax(around_axis(c.in(0).shape(), 1), c.in(0).data<T>(), log.data(), false);
    if (c.outputs.size() > 1 && c.wants(1)) std::copy(log.begin(), log.end(), c.outputs[1].data<T>());
    negative_log_likelihood<T>(c, log.data());
  });
}

}  // namespace

std::span<const OpRow> softmax_ops() {
  static constexpr OpRow table[] = {
      {{"Softmax", onnx_domain, infer_same, run_softmax}, {.shape = OutShape::input, .flops = {.of_input = 5}}},
      {{"LogSoftmax", onnx_domain, infer_same, run_softmax}, {.shape = OutShape::input, .flops = {.of_input = 6}}},
      {{"NegativeLogLikelihoodLoss", onnx_domain, infer_loss, run_nll_loss}, {.autocast = Autocast::fp32}},
      {{"SoftmaxCrossEntropyLoss", onnx_domain, infer_loss, run_softmax_loss}, {.autocast = Autocast::fp32}},
  };
  return table;
}

}  // namespace smelt::ops
