// Linear and cubic resizing of images along H and W. The taps of an axis are the same for every line: an output row is a sum of
// few input rows, which the processor's vectors take from one end to the other, and its pixels are sums of few of that row's.
#include <fmt/core.h>

#include <algorithm>

#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/resize/cpu_taps.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

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
    return offer_separable_cpu(b, machine, offer);
  }
  const auto axes = known_resize_axes(b);
  if (!axes) return offer.refuse("cpu", axes.refusal().at("interpolated"));
  for (size_t a = 0; a < 2; ++a)
    if ((*axes)[a].in != (*axes)[a].out || (*axes)[a].scale != 1) {
      offer.refuse("cpu", Reason::wrong_axis, "interpolated: it resizes the batch or the channels");
      return offer_separable_cpu(b, machine, offer);
    }
  for (const ResizeAxis& a : *axes)
    if (a.in > INT32_MAX) return offer.refuse("cpu", Reason::too_large, "an axis of {}; its places have 32 bits", a.in);
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
