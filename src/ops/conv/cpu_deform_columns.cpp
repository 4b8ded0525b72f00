// DeformConv of f64, of any rank and with computed weights too: its samples as the columns of a product of matrices.
#include <algorithm>
#include <cmath>

#include "ops/conv/columns.h"
#include "ops/conv/deform.h"
#include "ops/conv/offer.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

constexpr size_t most_axes = 4;
enum DeformInput : size_t { deform_x, deform_w, deform_offset, deform_bias, deform_mask };

/// The elements around a place, and how much each counts; those outside of the image are left out.
struct Corners {
  int64_t at[1 << most_axes];
  double weight[1 << most_axes];
  int count = 0;
};

class DeformColumns final : public Kernel {
 public:
  DeformColumns(Deform d, int threads)
      : d_(std::move(d)),
        p_(d_.conv),
        taps_(elements(p_.window.kernel)),
        places_(elements(p_.out)),
        plane_(elements(p_.in)),
        product_(wide::Type::f64, {p_.n, p_.group, p_.m / p_.group, p_.c / p_.group * taps_, places_}, threads) {}
  int64_t workspace() const override { return product_.workspace(); }

  void run(const Buffers& b) override {
    const auto* bias = input(b, deform_bias);
    const int64_t m = p_.m / p_.group;
    product_.run(
        b.inputs[deform_w], b.outputs[0], b.workspace,
        [&](int64_t image, int64_t group, int64_t first, int64_t count, void* to) {
          gather(b, image, group, first, count, static_cast<double*>(to));
        },
        [&](int64_t, int64_t group, int64_t, int64_t count, void* y) {
          for (int64_t i = 0; i < m && bias; ++i) {
            double* row = static_cast<double*>(y) + i * places_;
            for (int64_t k = 0; k < count; ++k) row[k] += bias[group * m + i];
          }
        });
  }

 private:
  static const double* input(const Buffers& b, size_t i) {
    return i < b.inputs.size() ? static_cast<const double*>(b.inputs[i]) : nullptr;
  }

  /// Some places at a time, whose corners all channels with the same offsets read.
  void gather(const Buffers& b, int64_t image, int64_t group, int64_t first, int64_t count, double* to) const {
    constexpr int64_t together = 64;
    const int64_t channels = p_.c / p_.group, begin = group * channels, shared = p_.c / d_.groups;
    Corners corners[together];
    for (int64_t done = 0; done < count; done += together) {
      const int64_t n = std::min(together, count - done);
      for (int64_t c = begin, end = 0; c < begin + channels; c = end) {
        const int64_t of = c / shared;
        end = std::min((of + 1) * shared, begin + channels);
        for (int64_t tap = 0; tap < taps_; ++tap) {
          for (int64_t i = 0; i < n; ++i) corners[i] = around(b, image * d_.groups + of, first + done + i, tap);
          for (int64_t k = c; k < end; ++k)
            sample(input(b, deform_x) + (image * p_.c + k) * plane_, corners, n, to + ((k - begin) * taps_ + tap) * count + done);
        }
      }
    }
  }

  static void sample(const double* x, const Corners* corners, int64_t n, double* to) {
    for (int64_t i = 0; i < n; ++i) {
      const Corners& c = corners[i];
      double sum = 0;
      for (int k = 0; k < c.count; ++k) sum += c.weight[k] * x[c.at[k]];
      to[i] = sum;
    }
  }

  /// What a tap reads for an output place; `offsets`: its image's and channels' group of them.
  Corners around(const Buffers& b, int64_t offsets, int64_t place, int64_t tap) const {
    const size_t rank = p_.in.size();
    double low[most_axes], part[most_axes];
    int64_t at = place, step = tap;
    for (size_t d = rank; d-- > 0; at /= p_.out[d], step /= p_.window.kernel[d]) {
      const int64_t row = (offsets * taps_ + tap) * static_cast<int64_t>(rank) + static_cast<int64_t>(d);
      const int64_t regular = at % p_.out[d] * p_.window.stride[d] + step % p_.window.kernel[d] * p_.window.dilation[d];
      const double where = static_cast<double>(regular - p_.window.pad_begin[d]) + input(b, deform_offset)[row * places_ + place];
      low[d] = std::floor(where), part[d] = where - low[d];
    }
    const double* mask = input(b, deform_mask);
    const double scale = mask ? mask[(offsets * taps_ + tap) * places_ + place] : 1;
    Corners c;
    for (size_t corner = 0; corner < size_t{1} << rank; ++corner) {
      double weight = 1;
      int64_t offset = 0;
      bool inside = true;
      for (size_t d = 0; d < rank && inside; ++d) {
        const bool high = (corner >> d) & 1;
        weight *= high ? part[d] : 1 - part[d];
        const double i = low[d] + (high ? 1 : 0);
        inside = weight != 0 && i >= 0 && i < static_cast<double>(p_.in[d]);  // a place that is no number is outside
        if (inside) offset = offset * p_.in[d] + static_cast<int64_t>(i);
      }
      if (inside) c.at[c.count] = offset, c.weight[c.count++] = weight * scale;
    }
    return c;
  }

  Deform d_;
  const ConvProblem& p_;
  int64_t taps_, places_, plane_;
  ColumnsProduct product_;
};

}  // namespace

void offer_deform_columns(const BoundNode& b, const Machine& machine, Offer& offer) {
  for (const BoundTensor& t : b.inputs)
    if (t.type != DType::undefined && t.type != DType::f64)
      return offer.refuse("cpu", Reason::wrong_type, "columns: elements of {}", name(t.type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const Deform d = deform_problem(*b.node, b.inputs[deform_x].shape, b.inputs[deform_w].shape, b.inputs[deform_offset].shape);
  if (d.conv.in.size() > most_axes) return offer.refuse("cpu", Reason::wrong_rank, "columns: {} spatial axes", d.conv.in.size());
  if (elements(b.outputs[0].shape) == 0 || elements(b.inputs[deform_x].shape) == 0)
    return offer.refuse("cpu", Reason::wrong_shape, "columns: an empty image");
  const double samples =
      static_cast<double>(d.conv.n * elements(d.conv.out)) * static_cast<double>(elements(d.conv.window.kernel) * d.conv.c);
  const double outputs = static_cast<double>(d.conv.m) / static_cast<double>(d.conv.group);
  const double us = samples * (outputs / 15e3 + 1 / 200.0);
  offer.candidates.push_back({"cpu", "columns", 2 + us / machine.threads,
                              [d, threads = machine.threads] { return std::make_unique<DeformColumns>(d, threads); }});
}

}  // namespace smelt::ops::conv
