// DeformConv over channels-last images: the sampled pixels of some output pixels at a time become rows in a thread's memory, each a
// window's channels, and are multiplied as in cpu_indirect.cpp. A sample is a weighted sum of up to four pixels' channels.
#include "expr/simd/isa.h"
#include "ops/conv/deform.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/deform.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/igemm/strided_rows.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t pixels_of_task = 16 * igemm::tile_rows;

enum DeformInput : size_t { deform_x, deform_w, deform_offset, deform_bias, deform_mask };

/// The pixels around a place, and how much each counts; those outside of the image are left out.
struct Corners {
  const float* pixels[4];
  float weights[4];
  int count = 0;
};

class DeformKernel final : public Kernel {
 public:
  DeformKernel(const BoundNode& node, Deform d, int threads)
      : d_(std::move(d)),
        p_(d_.conv),
        threads_(threads),
        taps_(elements(p_.window.kernel)),
        group_c_(p_.c / p_.group),
        depth_(taps_ * p_.c),
        pixels_(p_.n * elements(p_.out)),
        has_mask_(node.has(deform_mask)),
        x_steps_(pixel_steps(node.inputs[deform_x])),
        offset_steps_(memory_strides(node.inputs[deform_offset])),
        parts_(igemm::split(std::vector<int64_t>{taps_ * group_c_})),
        left_(static_cast<size_t>(threads), igemm::StridedRows(igemm::RowMap(Shape{pixels_of_task}, Shape{depth_}), parts_)),
        whole_(schedule_of(pixels_of_task)),
        last_(schedule_of(pixels_ - (pixels_ - 1) / pixels_of_task * pixels_of_task)),
        output_rows_(Shape{pixels_of_task}, Shape{p_.m}),
        blend_(simd::best() == simd::Isa::base ? base::blend_pixels() : avx2::blend_pixels()) {
    if (has_mask_) mask_steps_ = memory_strides(node.inputs[deform_mask]);
    if (const Tensor* bias = node.constant(deform_bias)) {
      bias_.assign(static_cast<size_t>(p_.m + igemm::tile_columns), 0.0f);
      std::ranges::copy(bias->span<float>(), bias_.begin());
    }
    pack(node);
  }

  int64_t workspace() const override { return threads_ * thread_bytes(); }

  void run(const Buffers& b) override {
    parallel_dynamic(threads_, (pixels_ + pixels_of_task - 1) / pixels_of_task, [&](int64_t task, int thread) {
      char* memory = static_cast<char*>(b.workspace) + thread * thread_bytes();
      float* rows = reinterpret_cast<float*>(memory);
      const int64_t first = task * pixels_of_task, count = std::min(pixels_of_task, pixels_ - first);
      for (int64_t i = 0; i < count; ++i) sample_row(first + i, b, rows + i * depth_);
      igemm::StridedRows& left = left_[static_cast<size_t>(thread)];
      left.set(rows);
      igemm::Run r;
      r.rows = &left;
      r.b = packed_.data<float>();
      r.bias = bias_.empty() ? nullptr : bias_.data();
      r.c = static_cast<float*>(b.outputs[0]) + first * p_.m;
      r.c_rows = &output_rows_;
      r.workspace = memory + rows_bytes();
      igemm::run(count == pixels_of_task ? whole_ : last_, r);
    });
  }

 private:
  igemm::Schedule schedule_of(int64_t rows) const {
    igemm::Schedule s = igemm::schedule(rows, p_.m / p_.group, parts_, false, 1, p_.group);
    s.group_step = taps_ * group_c_;
    return s;
  }

  int64_t rows_bytes() const { return aligned(pixels_of_task * depth_ * 4); }
  int64_t thread_bytes() const { return rows_bytes() + aligned(std::max(igemm::workspace(whole_), igemm::workspace(last_))); }

  void pack(const BoundNode& node) {
    const Tensor& w = node.inputs[deform_w].constant;
    const auto make = [&] {
      std::vector<int64_t> rows;  // of B: a tap's channels, tap after tap
      for (int64_t k = 0; k < taps_ * group_c_; ++k) rows.push_back(k % group_c_ * taps_ + k / group_c_);
      const int64_t columns = p_.m / p_.group, one = igemm::packed_floats(taps_ * group_c_, columns);
      Tensor t = Tensor::empty(DType::f32, {p_.group * one});
      for (int64_t g = 0; g < p_.group; ++g)
        igemm::pack(t.data<float>() + g * one, w.data<float>() + g * columns * group_c_ * taps_, rows, group_c_ * taps_, columns);
      return t;
    };
    packed_ = node.weights ? node.weights->packed(w, Key("deform").field(p_.group).text(), make) : make();
  }

  /// Where a window's tap reads for an output pixel, by that group's offsets and mask.
  Corners corners(const Buffers& b, int64_t n, const int64_t (&place)[2], int64_t group, int64_t tap) const {
    const int64_t row = group * taps_ + tap;
    const auto at = [&](const Shape& steps, int64_t channel) {
      return n * steps[0] + channel * steps[1] + place[0] * steps[2] + place[1] * steps[3];
    };
    Corners c;
    int64_t low[2];
    double part[2];
    for (int64_t a : {0, 1}) {
      const int64_t step = a == 0 ? tap / p_.window.kernel[1] : tap % p_.window.kernel[1];
      const auto axis = static_cast<size_t>(a);
      const double where =
          static_cast<double>(place[a] * p_.window.stride[axis] + step * p_.window.dilation[axis] - p_.window.pad_begin[axis]) +
          static_cast<double>(static_cast<const float*>(b.inputs[deform_offset])[at(offset_steps_, 2 * row + a)]);
      // No pixel is within one of it; a place that is no number is outside too.
      if (!(where > -1 && where < static_cast<double>(p_.in[axis]))) return c;
      low[a] = static_cast<int64_t>(where);
      if (static_cast<double>(low[a]) > where) --low[a];  // the library's floor is a call
      part[a] = where - static_cast<double>(low[a]);
    }
    const double scale =
        has_mask_ ? static_cast<double>(static_cast<const float*>(b.inputs[deform_mask])[at(mask_steps_, row)]) : 1;
    const float* image = static_cast<const float*>(b.inputs[deform_x]) + n * x_steps_[0];
    for (int corner = 0; corner < 4; ++corner) {
      const int64_t y = low[0] + corner / 2, x = low[1] + corner % 2;
      const double weight = (corner / 2 ? part[0] : 1 - part[0]) * (corner % 2 ? part[1] : 1 - part[1]);
      if (weight == 0 || y < 0 || y >= p_.in[0] || x < 0 || x >= p_.in[1]) continue;
      c.pixels[c.count] = image + y * x_steps_[1] + x * x_steps_[2];
      c.weights[c.count++] = static_cast<float>(weight * scale);
    }
    return c;
  }

  /// An output pixel's window: for each group of channels its taps one after the other.
  void sample_row(int64_t pixel, const Buffers& b, float* row) const {
    const int64_t plane = elements(p_.out), n = pixel / plane;
    const int64_t place[2] = {pixel % plane / p_.out[1], pixel % p_.out[1]};
    const int64_t shared = p_.c / d_.groups;  // channels with the same offsets
    for (int64_t group = 0; group < d_.groups; ++group) {
      for (int64_t tap = 0; tap < taps_; ++tap) {
        Corners c = corners(b, n, place, group, tap);
        for (int64_t channel = group * shared; channel < (group + 1) * shared;) {
          const int64_t g = channel / group_c_, count = std::min((group + 1) * shared, (g + 1) * group_c_) - channel;
          const float* from[4];
          for (int k = 0; k < c.count; ++k) from[k] = c.pixels[k] + channel;
          blend_(row + (g * taps_ + tap) * group_c_ + channel % group_c_, from, c.weights, c.count, count);
          channel += count;
        }
      }
    }
  }

  Deform d_;
  const ConvProblem& p_;
  int threads_;
  int64_t taps_, group_c_, depth_, pixels_;
  bool has_mask_;
  Shape x_steps_, offset_steps_, mask_steps_;  // of x along [N, H, W]
  std::vector<igemm::Part> parts_;
  std::vector<igemm::StridedRows> left_;  // of each thread
  igemm::Schedule whole_, last_;
  igemm::RowMap output_rows_;
  Blend blend_;
  std::vector<float> bias_;
  Tensor packed_;
};

std::optional<Refusal> rejects(const BoundNode& node, const ConvProblem& p) {
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2 and FMA");
  if (p.in.size() != 2) return refuse(Reason::wrong_rank, "{} spatial axes, expected 2", p.in.size());
  for (const auto* tensors : {&node.inputs, &node.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.type != DType::undefined && t.type != DType::f32) return refuse(Reason::wrong_type, "elements of {}", name(t.type));
  if (!node.constant(deform_w) || (node.has(deform_bias) && !node.constant(deform_bias)))
    return refuse(Reason::not_constant, "computed weights or bias");
  const BoundTensor &x = node.inputs[deform_x], &y = node.outputs[0];
  if (!is_channels_last(x) || !is_channels_last(y) || !is_dense(y) || !is_dense(node.inputs[deform_w]))
    return refuse(Reason::wrong_layout, "images that are not channels-last");
  if (elements(y.shape) == 0 || p.c == 0) return refuse(Reason::wrong_shape, "an empty image");
  return std::nullopt;
}

}  // namespace

void offer_deform_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  const Deform d =
      deform_problem(*node.node, node.inputs[deform_x].shape, node.inputs[deform_w].shape, node.inputs[deform_offset].shape);
  if (const auto why = rejects(node, d.conv)) {
    offer.refuse("avx2", *why);
    return offer_deform_columns(node, machine, offer);
  }
  const double pixels = static_cast<double>(d.conv.n * elements(d.conv.out));
  const double window = static_cast<double>(elements(d.conv.window.kernel) * d.conv.c);
  // One core: 90 GFLOP/s of products, a nanosecond for each eight channels of a sample.
  const double us = pixels * window * (2 * static_cast<double>(d.conv.m / d.conv.group) / 90e3 + 1 / 8e3);
  offer.candidates.push_back({"avx2", "sampled rows", 1 + us / machine.threads,
                              [node, d, threads = machine.threads] { return std::make_unique<DeformKernel>(node, d, threads); }});
}

}  // namespace smelt::ops::conv
