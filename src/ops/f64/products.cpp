#include "ops/f64/products.h"

#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/conv/transposed.h"
#include "ops/core/loops.h"
#include "ops/f64/gemm.h"
#include "ops/matmul/matmul.h"

namespace smelt::ops::f64 {
namespace {

bool is_double(std::span<const Tensor> inputs, size_t i) {
  return i < inputs.size() && inputs[i].valid() && inputs[i].type() == DType::f64;
}

bool flag(const Node& node, const char* attr) { return node.get_int(attr, 0) != 0; }

void multiply_batches(const MatMulProblem& p, const double* a, const double* b, double* y, int threads) {
  const LoopNest nest(p.batch, {p.a_batch, p.b_batch});
  std::vector<std::pair<int64_t, int64_t>> offsets;
  nest.for_each_run([&](std::span<const int64_t> at) {
    for (int64_t i = 0; i < nest.run(); ++i) offsets.emplace_back(at[0] + i * nest.stride(0), at[1] + i * nest.stride(1));
  });
  const int64_t batches = static_cast<int64_t>(offsets.size());
  const int inner = batches >= threads ? 1 : threads;  // many small products, or few large ones
  parallel_for(batches, inner == 1 ? threads : 1, [&](int64_t i) {
    const auto [at_a, at_b] = offsets[static_cast<size_t>(i)];
    gemm(p.m, p.n, p.k, {a + at_a, p.a_row, p.a_col}, {b + at_b, p.b_row, p.b_col}, y + i * p.m * p.n, p.n, inner);
  });
}

Tensor matmul(const Node& node, std::span<const Tensor> in, int threads) {
  const MatMulProblem p = matmul_problem(in[0].shape(), in[1].shape(), flag(node, "transA"), flag(node, "transB"));
  Tensor y = Tensor::empty(DType::f64, p.y);
  multiply_batches(p, in[0].data<double>(), in[1].data<double>(), y.data<double>(), threads);
  const double alpha = node.get_float("alpha", 1.0f);
  if (alpha != 1) {
    for (double& v : y.span<double>()) v *= alpha;
  }
  return y;
}

/// alpha · A · B + beta · C
Tensor gemm_node(const Node& node, std::span<const Tensor> in, int threads) {
  Tensor y = matmul(node, in, threads);
  if (in.size() < 3 || !in[2].valid()) return y;
  const double beta = node.get_float("beta", 1.0f);
  const LoopNest nest(y.shape(), {broadcast_strides(in[2].shape(), y.shape())});
  const double* bias = in[2].data<double>();
  double* out = y.data<double>();
  nest.for_each_run([&](std::span<const int64_t> at) {
    for (int64_t i = 0; i < nest.run(); ++i) *out++ += beta * bias[at[0] + i * nest.stride(0)];
  });
  return y;
}

void add_bias(Tensor& y, std::span<const Tensor> in, int64_t channels, int64_t plane) {
  if (in.size() < 3 || !in[2].valid()) return;
  double* out = y.data<double>();
  for (int64_t i = 0; i < y.size(); ++i) out[i] += in[2].data<double>()[i / plane % channels];
}

/// im2col: column[c · taps + tap, place] is what tap `tap` of channel c sees at that place, 0 in the padding. One product
/// a group with the weights gives all output planes of an image.
Tensor conv(const Node& node, std::span<const Tensor> in, int threads) {
  const ConvProblem p = conv_problem(node, in[0].shape(), in[1].shape());
  const int64_t group_c = p.c / p.group, group_m = p.m / p.group, taps = elements(p.window.kernel);
  const int64_t in_plane = elements(p.in), plane = elements(p.out), depth = group_c * taps;
  if (group_m < 4) return {};
  Tensor y = Tensor::empty(DType::f64, with_spatial(p.n, p.m, p.out));
  std::vector<double> columns(static_cast<size_t>(depth * plane));
  const int64_t stride = p.window.stride.back();
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t g = 0; g < p.group; ++g) {
      std::fill(columns.begin(), columns.end(), 0.0);
      parallel_for(group_c, threads, [&](int64_t c) {
        const double* x = in[0].data<double>() + (n * p.c + g * group_c + c) * in_plane;
        double* row = columns.data() + c * taps * plane;
        Shape tap(p.window.rank(), 0);
        do {
          for_runs(p.window, p.out, p.in, tap, [&](int64_t place, int64_t point, int64_t count) {
            for (int64_t i = 0; i < count; ++i) row[place + i] = x[point + i * stride];
          });
          row += plane;
        } while (advance(tap, p.window.kernel));
      });
      gemm(group_m, plane, depth, {in[1].data<double>() + g * group_m * depth, depth, 1}, {columns.data(), plane, 1},
           y.data<double>() + (n * p.m + g * group_m) * plane, plane, threads);
    }
  }
  add_bias(y, in, p.m, plane);
  return y;
}

/// The adjoint of conv: a product gives every tap's contribution, [m · taps, place], and those are added where the taps lie.
Tensor conv_transposed(const Node& node, std::span<const Tensor> in, int threads) {
  const TransposedConv t = transposed_conv(node, in[0].shape(), in[1].shape());
  const int64_t group_c = t.c / t.group, group_m = t.m / t.group, taps = elements(t.window.kernel);
  const int64_t places = elements(t.in), plane = elements(t.out), rows = group_m * taps;
  if (group_m < 4) return {};
  Tensor y = Tensor::zeros(DType::f64, with_spatial(t.n, t.m, t.out));
  std::vector<double> columns(static_cast<size_t>(rows * places));
  const int64_t stride = t.window.stride.back();
  for (int64_t n = 0; n < t.n; ++n) {
    for (int64_t g = 0; g < t.group; ++g) {
      // w is [c, group_m · taps]: its transpose times x [c, places]
      gemm(rows, places, group_c, {in[1].data<double>() + g * group_c * rows, 1, rows},
           {in[0].data<double>() + (n * t.c + g * group_c) * places, places, 1}, columns.data(), places, threads);
      parallel_for(group_m, threads, [&](int64_t m) {
        double* out = y.data<double>() + (n * t.m + g * group_m + m) * plane;
        const double* row = columns.data() + m * taps * places;
        Shape tap(t.window.rank(), 0);
        do {
          for_runs(t.window, t.in, t.out, tap, [&](int64_t place, int64_t point, int64_t count) {
            for (int64_t i = 0; i < count; ++i) out[point + i * stride] += row[place + i];
          });
          row += places;
        } while (advance(tap, t.window.kernel));
      });
    }
  }
  add_bias(y, in, t.m, plane);
  return y;
}

}  // namespace

Tensor product(const Node& node, std::span<const Tensor> in, int threads) {
  if (!is_double(in, 0) || !is_double(in, 1)) return {};
  if (node.is("MatMul")) return matmul(node, in, threads);
  if (node.is("FusedMatMul", microsoft_domain) && !flag(node, "transBatchA") && !flag(node, "transBatchB"))
    return matmul(node, in, threads);
  if (node.is("Gemm")) return gemm_node(node, in, threads);
  if (node.is("Conv")) return conv(node, in, threads);
  if (node.is("ConvTranspose")) return conv_transposed(node, in, threads);
  return {};
}

}  // namespace smelt::ops::f64
