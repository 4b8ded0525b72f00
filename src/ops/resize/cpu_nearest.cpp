// Nearest resizing of channels-last images: pixels are copied whole, and an output row that repeats the one above it with them.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ops/core/axis_table.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

/// The places of an image that the output's rows and columns are taken from.
struct Places {
  std::vector<int64_t> y, x;
};

/// Of a nearest resizing of the spatial axes of channels-last images by known sizes; refused for anything else.
Result<Places> places(const BoundNode& b) {
  const Node& n = *b.node;
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (x.shape.size() != 4) return refuse(Reason::wrong_rank, "{} axes; it knows 4", x.shape.size());
  if (bits(x.type) % 8 != 0) return refuse(Reason::wrong_type, "elements of {}", name(x.type));
  if (!is_channels_last(x) || !is_channels_last(y)) return refuse(Reason::wrong_layout, "an image that is not channels-last");
  if (elements(x.shape) == 0 || elements(y.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  const std::string mode = resize_transformation(n);
  if (n.get_string("mode", "nearest") != "nearest" || mode == "tf_crop_and_resize")
    return refuse(Reason::wrong_attribute, "not nearest, or with a region of interest");
  const auto known = known_resize_axes(b);
  if (!known) return known.refusal();
  const std::vector<ResizeAxis>& axes = *known;
  for (size_t a = 0; a < 2; ++a)
    if (axes[a].in != axes[a].out) return refuse(Reason::wrong_axis, "it resizes the batch or the channels");
  const std::string rounding = n.get_string("nearest_mode", n.op == "Upsample" ? "floor" : "round_prefer_floor");
  Places p;
  for (size_t a = 2; a < 4; ++a) check_axis_table(axes[a].out);
  for (size_t a = 2; a < 4; ++a)
    for (int64_t o = 0; o < axes[a].out; ++o) {
      const int64_t place = nearest_place(resize_coordinate(axes[a], mode, o), rounding);
      (a == 2 ? p.y : p.x).push_back(std::clamp<int64_t>(place, 0, axes[a].in - 1));
    }
  return p;
}

/// Pixels of a fixed number of bytes are copied by instructions, others by memcpy.
template <size_t bytes> void copy_pixels(char* to, int64_t to_step, const char* from, int64_t from_step,
                                         const std::vector<int64_t>& places, size_t size) {
  for (size_t x = 0; x < places.size(); ++x) {
    std::memcpy(to + static_cast<int64_t>(x) * to_step, from + places[x] * from_step, bytes ? bytes : size);
  }
}

class NearestKernel final : public Kernel {
 public:
  NearestKernel(Places p, const BoundTensor& x, const BoundTensor& y, int threads)
      : p_(std::move(p)),
        batch_(y.shape[0]),
        bytes_(bytes(x.type, 1)),
        pixel_(static_cast<size_t>(bytes(x.type, x.shape[1]))),
        from_(memory_strides(x)),
        to_(memory_strides(y)),
        threads_(useful_threads(threads, bytes(y.type, elements(y.shape)) / 8)) {
    for (Shape* steps : {&from_, &to_})
      for (int64_t& s : *steps) s *= bytes_;
  }

  void run(const Buffers& b) override {
    const char* x = static_cast<const char*>(b.inputs[0]);
    char* y = static_cast<char*>(b.outputs[0]);
    const int64_t rows = static_cast<int64_t>(p_.y.size());
    const auto copy = pixel_ == 32    ? copy_pixels<32>
                      : pixel_ == 64  ? copy_pixels<64>
                      : pixel_ == 128 ? copy_pixels<128>
                                      : copy_pixels<0>;
    parallel(threads_, batch_ * rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / rows, row = i % rows;
        copy(y + n * to_[0] + row * to_[2], to_[3], x + n * from_[0] + p_.y[static_cast<size_t>(row)] * from_[2], from_[3], p_.x,
             pixel_);
      }
    });
  }

 private:
  Places p_;
  int64_t batch_, bytes_;
  size_t pixel_;     // bytes
  Shape from_, to_;  // in bytes
  int threads_;
};

/// Images whose pixels are not adjacent channels, of any rank and axes.
void offer_nearest_by_axes(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.node->get_string("mode", "nearest") != "nearest")
    return offer.refuse("cpu", Reason::wrong_attribute, "nearest: its mode is {}", b.node->get_string("mode", "nearest"));
  if (const auto why = rejects_mapped(b)) return offer.refuse("cpu", why->at("nearest"));
  if (elements(b.inputs[0].shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "nearest: an empty image");
  Result<PaddedAxes> p = nearest_axes(b);
  if (!p) return offer.refuse("cpu", p.refusal().at("nearest"));
  offer.candidates.push_back({"cpu", "nearest axes", copy_estimate_us(b, machine),
                              [b, p = *p, threads = machine.threads] { return mapped_kernel(b, p, threads); }});
}

}  // namespace

void offer_nearest_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const Result<Places> p = places(b);
  if (!p) return offer_nearest_by_axes(b, machine, offer);
  constexpr double bytes_per_us = 8e3;
  offer.candidates.push_back(
      {"cpu", "nearest", 1 + static_cast<double>(bytes(y.type, elements(y.shape))) / bytes_per_us / machine.threads,
       [p = *p, x, y, threads = machine.threads] { return std::make_unique<NearestKernel>(p, x, y, threads); }});
}

}  // namespace smelt::ops
