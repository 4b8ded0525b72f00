// Convolutions of f64, plain and transposed, and ConvInteger by computed weights: products of matrices with what their windows see.
#include <algorithm>

#include "ops/conv/columns.h"
#include "ops/conv/offer.h"
#include "ops/conv/transposed.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

ColumnsProduct::Extents extents_of(const ConvProblem& p) {
  return {p.n, p.group, p.m / p.group, p.c / p.group * elements(p.window.kernel), elements(p.out)};
}

class ColumnsConv final : public Kernel {
 public:
  ColumnsConv(ConvProblem p, size_t bias, int threads)
      : p_(std::move(p)), bias_(bias), product_(wide::Type::f64, extents_of(p_), threads) {}
  int64_t workspace() const override { return product_.workspace(); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const double*>(b.inputs[0]);
    const auto* bias = bias_ < b.inputs.size() ? static_cast<const double*>(b.inputs[bias_]) : nullptr;
    const int64_t channels = p_.c / p_.group, m = p_.m / p_.group, plane = elements(p_.in), places = elements(p_.out);
    product_.run(
        b.inputs[1], b.outputs[0], b.workspace,
        [&](int64_t image, int64_t group, int64_t first, int64_t count, void* to) {
          gather_windows(p_, x + (image * p_.c + group * channels) * plane, 0.0, first, count, static_cast<double*>(to));
        },
        [&](int64_t, int64_t group, int64_t, int64_t count, void* y) {
          for (int64_t i = 0; i < m && bias; ++i) {
            double* row = static_cast<double*>(y) + i * places;
            for (int64_t k = 0; k < count; ++k) row[k] += bias[group * m + i];
          }
        });
  }

 private:
  ConvProblem p_;
  size_t bias_;
  ColumnsProduct product_;
};

/// Every input pixel's products with the weights of some output channels, added to where their windows lie.
class TransposedColumns final : public Kernel {
 public:
  TransposedColumns(TransposedConv t, size_t bias, int threads)
      : t_(std::move(t)),
        bias_(bias),
        taps_(elements(t_.window.kernel)),
        in_(elements(t_.in)),
        out_(elements(t_.out)),
        m_(t_.m / t_.group),
        c_(t_.c / t_.group),
        step_(std::clamp<int64_t>((int64_t{1} << 17) / std::max<int64_t>(1, taps_ * in_), 1, m_)),
        steps_(divide_up(m_, step_)),
        threads_(useful_threads(threads, t_.n * t_.group * m_ * taps_ * c_ * in_ / 4)),
        share_(t_.n * t_.group * steps_ >= threads_ ? 1 : threads_),
        whole_(wide::Type::f64, step_ * taps_, in_, c_, share_),
        last_(wide::Type::f64, (m_ - (steps_ - 1) * step_) * taps_, in_, c_, share_) {}

  int64_t workspace() const override { return (share_ == 1 ? threads_ : 1) * worker_bytes(); }

  void run(const Buffers& b) override {
    const int64_t tasks = t_.n * t_.group * steps_;
    if (share_ == 1)
      parallel_dynamic(threads_, tasks, [&](int64_t task, int thread) { one(b, task, thread); });
    else
      for (int64_t task = 0; task < tasks; ++task) one(b, task, 0);
  }

 private:
  int64_t columns_bytes() const { return aligned(step_ * taps_ * in_ * 8); }
  int64_t worker_bytes() const { return columns_bytes() + aligned(std::max(whole_.workspace(), last_.workspace())); }

  void one(const Buffers& b, int64_t task, int worker) const {
    const int64_t step = task % steps_, group = task / steps_ % t_.group, image = task / steps_ / t_.group;
    const int64_t first = step * step_, count = std::min(step_, m_ - first);
    auto* columns = reinterpret_cast<double*>(static_cast<char*>(b.workspace) + worker * worker_bytes());
    const double* w = static_cast<const double*>(b.inputs[1]) + (group * c_ * m_ + first) * taps_;
    const double* x = static_cast<const double*>(b.inputs[0]) + (image * t_.c + group * c_) * in_;
    (step + 1 == steps_ ? last_ : whole_)
        .run({w, 1, m_ * taps_}, {x, in_, 1}, columns, in_, reinterpret_cast<char*>(columns) + columns_bytes());
    const auto* bias = bias_ < b.inputs.size() ? static_cast<const double*>(b.inputs[bias_]) : nullptr;
    const int64_t channel = group * m_ + first;
    double* y = static_cast<double*>(b.outputs[0]) + (image * t_.m + channel) * out_;
    parallel(share_, count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) add(columns + i * taps_ * in_, bias ? bias[channel + i] : 0, y + i * out_);
    });
  }

  void add(const double* columns, double bias, double* y) const {
    std::fill_n(y, out_, bias);
    const int64_t stride = t_.window.stride.back();
    Shape tap(t_.window.rank(), 0);
    for (int64_t k = 0; k < taps_; ++k, columns += in_, advance(tap, t_.window.kernel)) {
      for_runs(t_.window, t_.in, t_.out, tap, [&](int64_t place, int64_t point, int64_t count) {
        for (int64_t i = 0; i < count; ++i) y[point + i * stride] += columns[place + i];
      });
    }
  }

  TransposedConv t_;
  size_t bias_;
  int64_t taps_, in_, out_, m_, c_;
  int64_t step_, steps_;  // output channels at a time
  int threads_, share_;
  wide::Gemm whole_, last_;
};

/// Sums of 8-bit integers less their zero points, which wrap, in 32 bits. Inputs: x, w, x's zero point?, w's, one or one for each
/// channel?
template <class X, class W> class IntegerColumns final : public Kernel {
 public:
  IntegerColumns(ConvProblem p, const BoundNode& b, int threads)
      : p_(std::move(p)),
        zeros_(b.has(3) ? elements(b.inputs[3].shape) : 0),
        has_zero_(b.has(2)),
        product_(wide::Type::i32, extents_of(p_), threads) {}
  int64_t workspace() const override { return weights_bytes() + product_.workspace(); }

  void run(const Buffers& b) override {
    auto* weights = static_cast<uint32_t*>(b.workspace);
    const int64_t channels = p_.c / p_.group, plane = elements(p_.in), depth = channels * elements(p_.window.kernel);
    const auto* w = static_cast<const W*>(b.inputs[1]);
    const auto* zeros = zeros_ ? static_cast<const W*>(b.inputs[3]) : nullptr;
    for (int64_t i = 0; i < p_.m * depth; ++i)
      weights[i] = static_cast<uint32_t>(w[i]) - (zeros ? static_cast<uint32_t>(zeros[zeros_ == 1 ? 0 : i / depth]) : 0);
    const auto* x = static_cast<const X*>(b.inputs[0]);
    const uint32_t zero = has_zero_ ? static_cast<uint32_t>(*static_cast<const X*>(b.inputs[2])) : 0;
    product_.run(
        weights, b.outputs[0], static_cast<char*>(b.workspace) + weights_bytes(),
        [&](int64_t image, int64_t group, int64_t first, int64_t count, void* to) {
          gather_windows(p_, x + (image * p_.c + group * channels) * plane, zero, first, count, static_cast<uint32_t*>(to));
        },
        [](int64_t, int64_t, int64_t, int64_t, void*) {});
  }

 private:
  int64_t weights_bytes() const { return aligned(p_.m * (p_.c / p_.group) * elements(p_.window.kernel) * 4); }

  ConvProblem p_;
  int64_t zeros_;
  bool has_zero_;
  ColumnsProduct product_;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  if (const auto why = rejects_layouts(b)) return why;
  for (const auto* t : {&b.inputs[0], &b.inputs[1], &b.outputs[0]})
    if (elements(t->shape) == 0) return refuse(Reason::wrong_shape, "columns: an empty tensor");
  return std::nullopt;
}

/// A core of AVX-512 at 3 GHz, reckoned: the products, and what its windows see, copied.
double estimate_us(double products, double columns, double per_us, int threads) {
  return 2 + (products / per_us + columns / 1e3) / threads;
}

}  // namespace

void offer_columns(const Request& r, Offer& offer) {
  const Node& node = *r.node.node;
  if (r.problem.input != DType::f64) return;  // others have kernels that know them
  for (const size_t i : {r.at.w, r.at.b})
    if (r.node.has(i) && r.node.inputs[i].type != DType::f64)
      return offer.refuse("cpu", Reason::wrong_type, "columns: input {} is {}", i, name(r.node.inputs[i].type));
  if (r.problem.output != DType::f64 || node.program || r.at.segments != 1 || r.problem.x[0].upsample != 1)
    return offer.refuse("cpu", Reason::unsupported, "columns: a program, or images that are joined or enlarged");
  if (const auto why = rejects(r.node)) return offer.refuse("cpu", *why);
  const Shape &x = r.node.inputs[0].shape, &w = r.node.inputs[1].shape;
  const size_t bias = r.node.has(r.at.b) ? r.at.b : r.node.inputs.size();
  const double columns = r.problem.flops() / 2 / static_cast<double>(std::max<int64_t>(1, w[r.problem.transposed ? 1 : 0]));
  const double us = estimate_us(r.problem.flops() / 2, columns, 15e3, r.threads);
  if (r.problem.transposed) {
    constexpr int64_t most = int64_t{1} << 27;  // products of one output channel that lie in memory at a time
    if (elements(spatial_of(w)) > most / std::max<int64_t>(1, elements(spatial_of(x))))
      return offer.refuse("cpu", Reason::too_large, "columns: {} taps of {} pixels", elements(spatial_of(w)),
                          elements(spatial_of(x)));
    offer.candidates.push_back({"cpu", "columns", us, [t = transposed_conv(node, x, w), bias, threads = r.threads] {
                                  return std::make_unique<TransposedColumns>(t, bias, threads);
                                }});
    return;
  }
  offer.candidates.push_back({"cpu", "columns", us, [p = conv_problem(node, x, w), bias, threads = r.threads] {
                                return std::make_unique<ColumnsConv>(p, bias, threads);
                              }});
}

void offer_integer_columns(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  if (b.has(2) && elements(b.inputs[2].shape) != 1) return offer.refuse("cpu", Reason::wrong_shape, "columns: zero points of x");
  const ConvProblem p = conv_problem(*b.node, b.inputs[0].shape, b.inputs[1].shape);
  if (const int64_t zeros = b.has(3) ? elements(b.inputs[3].shape) : 1; zeros != 1 && zeros != p.m)
    return offer.refuse("cpu", Reason::wrong_shape, "columns: {} zero points of w", zeros);
  const ColumnsProduct::Extents e = extents_of(p);
  const double columns = static_cast<double>(e.images * e.groups) * static_cast<double>(e.depth * e.places);
  const double us = estimate_us(columns * static_cast<double>(e.m), columns, 15e3, machine.threads);
  const bool x_signed = b.inputs[0].type == DType::i8, w_signed = b.inputs[1].type == DType::i8;
  const auto add = [&]<class X, class W>(X, W) {
    offer.candidates.push_back({"cpu", "columns", us, [p, b, threads = machine.threads] {
                                  return std::make_unique<IntegerColumns<X, W>>(p, b, threads);
                                }});
  };
  if (x_signed)
    w_signed ? add(int8_t{}, int8_t{}) : add(int8_t{}, uint8_t{});
  else
    w_signed ? add(uint8_t{}, int8_t{}) : add(uint8_t{}, uint8_t{});
}

}  // namespace smelt::ops::conv
