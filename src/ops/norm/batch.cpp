// BatchNormalization (with given statistics, or those of the batch when training) and LRN.
#include <cmath>

#include "base/error.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"

namespace smelt::ops {
namespace {

int64_t batch_channels(const Shape& x) { return x.size() < 2 ? 1 : x[1]; }

/// Opset 7 and 8 had no flag: a node that asks for the statistics trains. The attribute decides from opset 14 on.
bool trains(const Node& node) { return node.get_int("training_mode", 0) != 0; }

}  // namespace

void infer_batch(InferContext& c) {
  const int64_t channels = batch_channels(c.shape(0));
  for (size_t i = 1; i < 5; ++i) {
    if (c.shape(i) != Shape{channels}) fail("input {} has shape {}, expected [{}]", i, to_string(c.shape(i)), channels);
  }
  same_as(c, 0, 0);
  for (size_t i = 1; i < c.outputs.size(); ++i) c.set(i, type_of(c, 3), {channels});
}

void run_batch(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape& shape = c.in(0).shape();
    const int64_t channels = batch_channels(shape), items = shape.empty() ? 1 : shape[0];
    const int64_t plane = shape.size() < 2 ? 1 : elements(Shape(shape.begin() + 2, shape.end()));
    const double epsilon = c.node.get_float("epsilon", 1e-5f), momentum = c.node.get_float("momentum", 0.9f);
    const T *x = c.in(0).data<T>(), *scale = c.in(1).data<T>(), *bias = c.in(2).data<T>();
    const T *given_mean = c.in(3).data<T>(), *given_variance = c.in(4).data<T>();
    T* y = c.outputs[0].data<T>();
    const auto each = [&](int64_t ch, auto&& f) {
      for (int64_t n = 0; n < items; ++n) {
        for (int64_t i = 0; i < plane; ++i) f((n * channels + ch) * plane + i);
      }
    };
    for (int64_t ch = 0; ch < channels; ++ch) {
      double mean = static_cast<double>(given_mean[ch]), variance = static_cast<double>(given_variance[ch]);
      if (trains(c.node)) {
        const double count = static_cast<double>(items * plane);
        mean = variance = 0;
        each(ch, [&](int64_t i) { mean += static_cast<double>(x[i]); });
        mean /= count;
        each(ch, [&](int64_t i) { variance += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean); });
        variance /= count;
        const auto running = [momentum](double given, double now) {
          return static_cast<T>(given * momentum + now * (1 - momentum));
        };
        if (c.outputs.size() > 1 && c.wants(1)) c.outputs[1].data<T>()[ch] = running(static_cast<double>(given_mean[ch]), mean);
        if (c.outputs.size() > 2 && c.wants(2))
          c.outputs[2].data<T>()[ch] = running(static_cast<double>(given_variance[ch]), variance);
      }
      const double factor = static_cast<double>(scale[ch]) / std::sqrt(variance + epsilon);
      each(ch, [&](int64_t i) {
        y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * factor + static_cast<double>(bias[ch]));
      });
    }
  });
}

void run_lrn(ComputeContext& ctx) {
  const int64_t size = ctx.node.get_int("size", 0);
  if (size < 1) fail("size is {}, expected at least 1", size);
  in_float(ctx, [size](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const AxisView v = around_axis(c.in(0).shape(), 1);
    const double alpha = c.node.get_float("alpha", 1e-4f), beta = c.node.get_float("beta", 0.75f),
                 bias = c.node.get_float("bias", 1.0f);
    const T* x = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t ch = 0; ch < v.extent; ++ch) {
        const int64_t first = std::max<int64_t>(0, ch - (size - 1) / 2), last = std::min(v.extent - 1, ch + size / 2);
        for (int64_t i = 0; i < v.inner; ++i) {
          const auto at = [&](int64_t k) { return (o * v.extent + k) * v.inner + i; };
          double sum = 0;
          for (int64_t k = first; k <= last; ++k) sum += static_cast<double>(x[at(k)]) * static_cast<double>(x[at(k)]);
          y[at(ch)] =
              static_cast<T>(static_cast<double>(x[at(ch)]) / std::pow(bias + alpha / static_cast<double>(size) * sum, beta));
        }
      }
    }
  });
}

}  // namespace smelt::ops
