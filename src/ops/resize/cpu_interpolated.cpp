// Linear and cubic resizing of images along H and W. The taps of an axis are the same for every line: an output row is a sum of
// few input rows, which the processor's vectors take from one end to the other, and its pixels are sums of few of that row's.
#include <fmt/core.h>

#include <algorithm>

#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

/// An axis's taps: tap k of place o is number o * most + k. Places of fewer taps than others end in ones of weight 0.
struct AxisTaps {
  int64_t places = 0, most = 1;
  std::vector<int32_t> from;
  std::vector<float> weights;
};

AxisTaps axis_taps(const Node& n, const ResizeAxis& axis, const std::string& transformation) {
  const bool itself = axis.scale == 1 && axis.in == axis.out;
  std::vector<std::vector<ResizeTap>> taps;
  AxisTaps t;
  t.places = axis.out;
  for (int64_t o = 0; o < axis.out; ++o) {
    taps.push_back(itself ? std::vector<ResizeTap>{{o, 1}} : resize_taps(n, axis, resize_coordinate(axis, transformation, o)));
    t.most = std::max<int64_t>(t.most, static_cast<int64_t>(taps.back().size()));
  }
  for (std::vector<ResizeTap>& place : taps) {
    place.resize(static_cast<size_t>(t.most));
    for (const ResizeTap& tap : place) {
      t.from.push_back(static_cast<int32_t>(tap.place));
      t.weights.push_back(static_cast<float>(tap.weight));
    }
  }
  return t;
}

/// to = Σ weight * from, `count` elements, over the taps of a place; the rows of `from` lie `step` elements apart.
void sum_lines(float* to, const float* from, int64_t step, int64_t count, const AxisTaps& taps, int64_t place) {
  bool first = true;
  for (int64_t k = 0; k < taps.most; ++k) {
    const auto tap = static_cast<size_t>(place * taps.most + k);
    const float w = taps.weights[tap];
    if (w == 0) continue;  // an infinity there would become a NaN
    const float* line = from + taps.from[tap] * step;
    if (first)
      for (int64_t i = 0; i < count; ++i) to[i] = w * line[i];
    else
      for (int64_t i = 0; i < count; ++i) to[i] += w * line[i];
    first = false;
  }
  if (first) std::fill_n(to, count, 0.0f);  // all taps outside of an image, which exclude_outside leaves out
}

/// The same of single elements side by side: to[o] = Σ weight * line[from], over `most` taps where that is not 0.
template <int most> void sum_elements(float* to, const float* line, const AxisTaps& taps) {
  const int64_t count = most ? most : taps.most;
  const int32_t* from = taps.from.data();
  const float* weights = taps.weights.data();
  for (int64_t o = 0; o < taps.places; ++o, from += count, weights += count) {
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      const float product = weights[k] * line[from[k]];
      sum += weights[k] == 0 ? 0 : product;
    }
    to[o] = sum;
  }
}

void sum_elements(float* to, const float* line, const AxisTaps& taps) {
  switch (taps.most) {
    case 1: return sum_elements<1>(to, line, taps);
    case 2: return sum_elements<2>(to, line, taps);
    case 4: return sum_elements<4>(to, line, taps);
    default: return sum_elements<0>(to, line, taps);
  }
}

/// Images as planes of rows of pixels: a pixel is all channels where those lie side by side, else one element.
class InterpolationKernel final : public Kernel {
 public:
  InterpolationKernel(AxisTaps rows, AxisTaps columns, const BoundTensor& x, const BoundTensor& y, int threads)
      : rows_(std::move(rows)),
        columns_(std::move(columns)),
        channels_(x.shape[1]),
        width_(x.shape[3]),
        pixel_(x.layout == Layout::nhwc ? channels_ : 1),
        planes_(y.shape[0] * channels_ / pixel_),
        from_(memory_strides(x)),
        to_(memory_strides(y)),
        threads_(useful_threads(threads, elements(y.shape) * (rows_.most + columns_.most))) {}

  int64_t workspace() const override { return threads_ * line_bytes(); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    auto* y = static_cast<float*>(b.outputs[0]);
    parallel(threads_, planes_ * rows_.places, 1, [&](int64_t begin, int64_t end, int thread) {
      auto* line = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + thread * line_bytes());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t plane = i / rows_.places, row = i % rows_.places;
        const int64_t per_image = channels_ / pixel_, n = plane / per_image, c = plane % per_image;
        sum_lines(line, x + n * from_[0] + c * from_[1], from_[2], width_ * pixel_, rows_, row);
        float* out = y + n * to_[0] + c * to_[1] + row * to_[2];
        if (pixel_ == 1)
          sum_elements(out, line, columns_);
        else
          for (int64_t o = 0; o < columns_.places; ++o) sum_lines(out + o * to_[3], line, pixel_, pixel_, columns_, o);
      }
    });
  }

 private:
  int64_t line_bytes() const { return (width_ * pixel_ * 4 + 63) / 64 * 64; }

  AxisTaps rows_, columns_;
  int64_t channels_, width_, pixel_, planes_;
  Shape from_, to_;
  int threads_;
};

/// Any axes of plain tensors of any rank, in f32, f16 or bf16: an axis at a time, through two buffers of f32.
class SeparableKernel final : public Kernel {
 public:
  struct Pass {
    int64_t outer, in, inner;  // what it reads, around its axis
    AxisTaps taps;
  };
  SeparableKernel(std::vector<Pass> passes, FloatKind kind, int64_t read, int64_t written, int threads)
      : passes_(std::move(passes)), kind_(kind), read_(read), written_(written), threads_(threads) {
    most_ = std::max(read, written);
    for (const Pass& p : passes_) most_ = std::max(most_, p.outer * p.taps.places * p.inner);
  }
  int64_t workspace() const override { return 2 * buffer_bytes(); }

  void run(const Buffers& b) override {
    float* buffers[2] = {static_cast<float*>(b.workspace),
                         reinterpret_cast<float*>(static_cast<char*>(b.workspace) + buffer_bytes())};
    const auto* from = static_cast<const float*>(b.inputs[0]);
    if (kind_ != FloatKind::f32) {
      by_chunks(read_, [&](int64_t at, int64_t n) {
        row_simd().load(kind_, static_cast<const uint16_t*>(b.inputs[0]) + at, nullptr, nullptr, buffers[1] + at, n);
      });
      from = buffers[1];
    }
    for (size_t i = 0; i < passes_.size(); ++i) {
      const bool last = i + 1 == passes_.size() && kind_ == FloatKind::f32;
      float* to = last ? static_cast<float*>(b.outputs[0]) : buffers[i % 2];
      pass(passes_[i], from, to);
      from = to;
    }
    if (kind_ == FloatKind::f32) return;
    by_chunks(written_, [&](int64_t at, int64_t n) {
      row_simd().scale(kind_, from + at, nullptr, nullptr, static_cast<uint16_t*>(b.outputs[0]) + at, n);
    });
  }

 private:
  int64_t buffer_bytes() const { return (most_ * 4 + 63) / 64 * 64; }

  template <class F> void by_chunks(int64_t count, F&& f) const {
    parallel(useful_threads(threads_, count), count, 64, [&](int64_t begin, int64_t end, int) { f(begin, end - begin); });
  }

  void pass(const Pass& p, const float* from, float* to) const {
    const int threads = useful_threads(threads_, p.outer * p.taps.places * p.inner * p.taps.most);
    if (p.inner == 1) {
      parallel(threads, p.outer, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t o = begin; o < end; ++o) sum_elements(to + o * p.taps.places, from + o * p.in, p.taps);
      });
      return;
    }
    parallel(threads, p.outer * p.taps.places, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        sum_lines(to + i * p.inner, from + i / p.taps.places * p.in * p.inner, p.inner, p.inner, p.taps, i % p.taps.places);
    });
  }

  std::vector<Pass> passes_;
  FloatKind kind_;
  int64_t read_, written_, most_ = 0;
  int threads_;
};

void offer_separable(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const auto kind = float_kind(x.type);
  if (b.node->get_string("mode", "nearest") == "nearest" || resize_transformation(*b.node) == "tf_crop_and_resize")
    return offer.refuse("cpu", Reason::wrong_attribute, "separable: nearest, or a region of interest");
  if (!kind) return offer.refuse("cpu", Reason::wrong_type, "separable: elements of {}", name(x.type));
  if (x.layout != Layout::plain || y.layout != Layout::plain || !is_dense(x) || !is_dense(y))
    return offer.refuse("cpu", Reason::wrong_layout, "separable: tensors that are not dense and row-major");
  if (elements(x.shape) == 0 || elements(y.shape) == 0)
    return offer.refuse("cpu", Reason::wrong_shape, "separable: an empty tensor");
  const auto axes = known_resize_axes(b);
  if (!axes) return offer.refuse("cpu", axes.refusal().at("separable"));
  std::vector<SeparableKernel::Pass> passes;
  double work = 0;
  Shape s = x.shape;
  for (size_t a = 0; a < s.size(); ++a) {
    const ResizeAxis& axis = (*axes)[a];
    if (axis.in == axis.out && axis.scale == 1) continue;
    SeparableKernel::Pass p{1, axis.in, 1, axis_taps(*b.node, axis, resize_transformation(*b.node))};
    for (size_t k = 0; k < s.size(); ++k) (k < a ? p.outer : p.inner) *= k == a ? 1 : s[k];
    s[a] = axis.out;
    work += static_cast<double>(elements(s) * p.taps.most) / (p.inner == 1 ? 1.5e3 : 8e3);
    passes.push_back(std::move(p));
  }
  if (passes.empty()) return offer.refuse("cpu", Reason::wrong_axis, "separable: no axis changes");
  offer.candidates.push_back(
      {"cpu", "separable", 2 + work / machine.threads,
       [passes = std::move(passes), kind = *kind, read = elements(x.shape), written = elements(y.shape),
        threads = machine.threads] { return std::make_unique<SeparableKernel>(passes, kind, read, written, threads); }});
}

/// Why the kernel does not take it; nothing when it does.
std::optional<Refusal> rejects(const BoundNode& b) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const std::string mode = b.node->get_string("mode", "nearest");
  if (mode == "nearest") return refuse(Reason::wrong_attribute, "nearest, which copies pixels");
  if (resize_transformation(*b.node) == "tf_crop_and_resize") return refuse(Reason::wrong_attribute, "a region of interest");
  if (x.type != DType::f32 || x.shape.size() != 4)
    return refuse(Reason::wrong_type, "{} axes of {}, expected 4 of f32", x.shape.size(), name(x.type));
  if (elements(x.shape) == 0 || elements(y.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  const bool last = x.layout == Layout::nhwc;
  if (last != (y.layout == Layout::nhwc) || (last && (!is_channels_last(x) || !is_channels_last(y))))
    return refuse(Reason::wrong_layout, "images of different layouts");
  if (!last && (memory_strides(x)[3] != 1 || memory_strides(y)[3] != 1))
    return refuse(Reason::wrong_layout, "pixels that do not lie side by side");
  if (last && memory_strides(x)[3] != x.shape[1])
    return refuse(Reason::wrong_layout, "pixels that lie further apart than their channels fill");
  return std::nullopt;
}

}  // namespace

void offer_interpolated_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) {
    offer.refuse("cpu", why->at("interpolated"));
    return offer_separable(b, machine, offer);
  }
  const auto axes = known_resize_axes(b);
  if (!axes) return offer.refuse("cpu", axes.refusal().at("interpolated"));
  for (size_t a = 0; a < 2; ++a)
    if ((*axes)[a].in != (*axes)[a].out || (*axes)[a].scale != 1) {
      offer.refuse("cpu", Reason::wrong_axis, "interpolated: it resizes the batch or the channels");
      return offer_separable(b, machine, offer);
    }
  const std::string transformation = resize_transformation(*b.node);
  AxisTaps rows = axis_taps(*b.node, (*axes)[2], transformation), columns = axis_taps(*b.node, (*axes)[3], transformation);
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const bool last = x.layout == Layout::nhwc;
  // Multiply-adds of contiguous lines, 4 a cycle or so; of single elements, which are gathered, one.
  const double across = static_cast<double>(elements(y.shape)) * static_cast<double>(columns.most) / (last ? 8e3 : 1.5e3);
  const int64_t down_sums = elements(x.shape) / x.shape[2] * y.shape[2] * rows.most;
  const double down = static_cast<double>(down_sums) / 8e3;
  offer.candidates.push_back({"cpu", "interpolated", 1 + (across + down) / machine.threads,
                              [rows = std::move(rows), columns = std::move(columns), x, y, threads = machine.threads] {
                                return std::make_unique<InterpolationKernel>(rows, columns, x, y, threads);
                              }});
}

}  // namespace smelt::ops
