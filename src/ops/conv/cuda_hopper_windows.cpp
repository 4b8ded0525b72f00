#include "ops/conv/cuda_hopper_windows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "device/cuda/driver.h"
#include "kernels/conv/walked.h"
#include "ops/conv/cuda_outside.h"
#include "ops/conv/int8_problem.h"
#include "ops/matmul/cuda_hopper_kernel.h"

namespace smelt::ops::conv {
namespace {

namespace abi = device::cuda::abi;

constexpr int64_t most_stride = 8, access = 16;

/// Corners have 8 bits, of a volume 5 of them, a sign among them (PTX ISA, im2col mode); a tap lies so many pixels behind a window's first
/// at most. CUTLASS takes taps of a volume up to 30 behind, not 31.
struct Bounds {
  int64_t least_corner, most_corner, most_offset;
};
constexpr Bounds of_image{-128, 127, 255}, of_volume{-16, 15, 30};

std::optional<Refusal> rejects(const WindowsProblem& p) {
  const auto& [least_corner, most_corner, most_offset] = p.depth ? of_volume : of_image;
  const char* const of_volumes = p.depth ? " of volumes" : "";
  for (int axis = 0; axis < p.axes(); ++axis) {
    constexpr std::array names{"planes", "rows", "columns"};
    const char* const name = names[static_cast<size_t>(axis + 3 - p.axes())];
    const AlongAxis a = p.along(axis);
    if (a.stride > most_stride)
      return refuse(Reason::wrong_attribute, "windows {} {} apart, tensor maps take steps of {}", a.stride, name, most_stride);
    const int64_t first = -a.pad, last = a.last();
    if (first < least_corner || last < least_corner || first > most_corner || last > most_corner)
      return refuse(Reason::wrong_attribute, "windows begin {} to {} {} from the image's, tensor maps{} take {} to {}", first,
                    last, name, of_volumes, least_corner, most_corner);
    if (a.reach() > most_offset)
      return refuse(Reason::wrong_attribute, "taps {} {} apart, tensor maps{} take {}", a.reach(), name, of_volumes, most_offset);
  }
  return std::nullopt;
}

/// Whether some window has pixels outside of the image.
bool reaches_outside(const WindowsProblem& p) {
  for (int axis = 0; axis < p.axes(); ++axis)
    if (p.along(axis).reaches_outside()) return true;
  return false;
}

/// Bytes of a stage's lines: of integers 64 where that is a fifth of K less, zeros behind the channels of a pixel included.
int64_t stage_line(const WindowsProblem& p) {
  constexpr int64_t whole = matmul::HopperConfig::line_bytes, half = 64;
  return p.integers && 5 * p.k(half) <= 4 * p.k(whole) ? half : whole;
}

/// The image as a matrix of pixels: windows of one pixel, each at its own, rows and images without gaps.
bool is_matrix(const WindowsProblem& p) {
  const ImageSegment& s = p.segments[0];
  const auto follows = [](int64_t extent, int64_t step, int64_t expected) { return extent == 1 || step == expected; };
  return p.segments.size() == 1 && !p.depth && p.along(0).each_its_own() && p.along(1).each_its_own() &&
         follows(p.in_height, s.row, p.in_width * s.pixel) && follows(p.n, s.image, p.in_height * p.in_width * s.pixel);
}

}  // namespace

Result<WindowsProblem> windows_problem(GpuRequest& r) {
  if (r.gpu->info.major != 9)
    return refuse(Reason::wrong_machine, "wgmma is Hopper's alone (9.0), this is {}.{}", r.gpu->info.major, r.gpu->info.minor);
  if (r.problem.transposed) return refuse(Reason::unsupported, "a transposed convolution");
  const bool integers = r.problem.quantization.has_value();
  if (!integers && r.problem.input == DType::f32 && !r.gpu->tf32)
    return refuse(Reason::wrong_type, "a convolution of f32 that may not be rounded to tf32");
  const DType type = r.problem.input;
  if (!integers && type != DType::f16 && type != DType::bf16 && type != DType::f32 && type != DType::f8e4m3fn)
    return refuse(Reason::wrong_type, "a convolution of {}, this one multiplies f16, bf16, f32 as tf32 and f8e4m3fn",
                  smelt::name(type));
  if (integers && !fit_8_bits(r)) return refuse(Reason::wrong_value, "weights that have more than 8 bits less their zero points");
  auto found = implicit_problem(r);
  if (!found) return found.refusal();
  WindowsProblem p{*std::move(found)};
  p.integers = integers;
  if (p.padded)
    return refuse(Reason::unsupported, "an image of {} channels, whose rows are not at 16 bytes", r.problem.x[0].shape[1]);
  for (size_t i = 0; i < p.segments.size(); ++i)
    if (p.segments[i].shift != 0)
      return refuse(Reason::unsupported,
                    "input {} is upsampled by {}: a tensor map's windows move by whole pixels, not among copies of one", i,
                    1 << p.segments[i].shift);
  if (const int64_t size = p.vec * bytes(p.type, 1); size < access)
    return refuse(Reason::wrong_layout, "copies of {} bytes, tensor maps want {}: the channels of a pixel, or its strides", size,
                  access);
  if (auto why = rejects(p)) return *why;
  p.matrix = !integers && is_matrix(p);
  p.line_bytes = stage_line(p);
  if (!integers) return p;
  std::optional<EpilogueOperand> outside;
  if (r.zero() != 0 && reaches_outside(p)) {
    if (outside_elements(p) > most_outside)
      return refuse(Reason::too_large, "a table of {} numbers for pixels outside of the image", outside_elements(p));
    outside = outside_operand(r, p);
  }
  set_integer_program(r, r.zero(), std::move(outside));
  return p;
}

matmul::CudaProblem windows_product(const GpuRequest& r, const WindowsProblem& p) {
  matmul::CudaProblem product{{p.pixels(), p.m, p.matrix ? p.segments[0].channels : p.k(p.line()), {1}, {}, {}},
                              p.type,
                              p.integers ? DType::i8 : p.type,
                              r.epilogue(4),
                              {}};
  product.a = {.outer = p.matrix ? p.segments[0].pixel : product.k, .k = 1, .batch = {0}, .alignment = access};
  product.b = {.outer = product.k, .k = 1, .batch = {0}, .alignment = access};
  product.a.vec = product.b.vec = access / bytes(p.type, 1);
  product.constant_b = true;
  product.line_bytes = p.line_bytes;
  for (const Input& x : r.problem.x) product.image_bytes += static_cast<double>(bytes(p.type, elements(x.shape)));
  return product;
}

template <int Axes> kernels::HopperWindows<Axes> hopper_windows(const WindowsProblem& p) {
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  kernels::HopperWindows<Axes> w{};
  for (int axis = 0; axis < Axes; ++axis) {
    const AlongAxis a = p.along(axis);
    w.out[axis] = Divider(static_cast<uint32_t>(a.out));
    w.stride[axis] = narrow(a.stride), w.first[axis] = narrow(-a.pad);
    w.dilation[axis] = narrow(a.dilation), w.taps[axis] = narrow(a.taps);
  }
  return w;
}
template kernels::HopperWindows<2> hopper_windows<2>(const WindowsProblem& p);
template kernels::HopperWindows<3> hopper_windows<3>(const WindowsProblem& p);

namespace {

/// The fewest windows that a row or an image may have: a tap that reaches beyond them reads zeros, where it should.
int64_t sliding_extent(const AlongAxis& a) {
  const auto enough = [&](int64_t extent) {
    for (int64_t tap = 0; tap < a.taps; ++tap) {
      const int64_t offset = tap * a.dilation, begin = offset % a.stride - a.pad;
      for (int64_t at = extent; at < a.out + offset / a.stride; ++at)
        if (at * a.stride + begin < a.in || (at - extent) * a.stride + begin >= 0) return false;
    }
    return true;
  };
  int64_t extent = a.out;
  while (!enough(extent)) ++extent;
  return extent;
}

}  // namespace

std::optional<WindowsProblem> sliding_windows(const WindowsProblem& p) {
  constexpr double most_in_vain = 1.35;  // windows over y's
  if (p.matrix || p.depth || p.tap_count() == 1) return std::nullopt;
  WindowsProblem all = p;
  for (int axis = 0; axis < 2; ++axis) {
    if (p.stride[axis] > 2 || (p.stride[axis] == 2 && p.dilation[axis] != 1)) return std::nullopt;
    (axis == 0 ? all.out_height : all.out_width) = sliding_extent(p.along(axis));
  }
  constexpr int64_t most_pixels = int64_t{1} << 30;
  if (all.pixels() > most_pixels || static_cast<double>(all.pixels()) > most_in_vain * static_cast<double>(p.pixels()))
    return std::nullopt;
  all.taps[0] = all.taps[1] = 1;
  if (rejects(all)) return std::nullopt;
  return all;
}

kernels::SlidingWindows sliding_argument(const WindowsProblem& p, const WindowsProblem& sliding) {
  kernels::SlidingWindows w{};
  w.width = Divider(static_cast<uint32_t>(sliding.out_width)), w.height = Divider(static_cast<uint32_t>(sliding.out_height));
  w.out[0] = static_cast<uint32_t>(p.out_height), w.out[1] = static_cast<uint32_t>(p.out_width);
  for (int axis = 0; axis < 2; ++axis)
    w.first[axis] = static_cast<int32_t>(-p.pad[axis]), w.taps[axis] = static_cast<uint32_t>(p.taps[axis]),
    w.stride[axis] = static_cast<uint32_t>(p.stride[axis]);
  w.step[0] = static_cast<uint32_t>(p.dilation[0] * sliding.out_width), w.step[1] = static_cast<uint32_t>(p.dilation[1]);
  w.m = static_cast<uint32_t>(p.pixels());
  return w;
}

int64_t sliding_reach(const kernels::SlidingWindows& w) {
  return static_cast<int64_t>(w.taps_of(0, 0) - 1) * w.step[0] + (w.taps_of(1, 0) - 1) * w.step[1];
}

uint32_t hopper_chunks(const WindowsProblem& p, const ImageSegment& s) {
  return static_cast<uint32_t>((s.channels + p.line() - 1) / p.line());
}

int64_t windows_lines(const WindowsProblem& p, int64_t width) {
  return width > 0 ? (p.m + 4 * width - 1) / (4 * width) * (4 * width) : p.m;
}

Tensor windows_weights(const GpuRequest& r, const WindowsProblem& p, int64_t width, bool paired) {
  if (!p.integers) return implicit_weights(r.weight().constant, p, p.line());
  const int64_t lines = windows_lines(p, width), k = p.k(p.line()), taps = p.tap_count(), part = 4 * width;
  Tensor to = Tensor::zeros(DType::i8, {lines, k});
  for (int64_t l = 0; l < lines; ++l) {
    const int64_t m = width > 0 ? l / part * part + kernels::walked_channel(static_cast<int>(l % part), static_cast<int>(width))
                      : paired  ? l / 16 * 16 + kernels::paired_channel(static_cast<int>(l % 16))
                                : l;
    if (m >= p.m) continue;
    int8_t* segment = to.data<int8_t>() + l * k;
    int64_t first = 0;
    for (const ImageSegment& s : p.segments) {
      const int64_t span = hopper_chunks(p, s) * p.line();
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t c = 0; c < s.channels; ++c) segment[tap * span + c] = static_cast<int8_t>(int8_weight(r, m, first + c, tap));
      segment += taps * span, first += s.channels;
    }
  }
  return to;
}

WindowMap::WindowMap(const WindowsProblem& p, const ImageSegment& s, int64_t windows) : type(matmul::tensor_map_type(p.type)) {
  const int64_t element = p.element(), spatial = p.axes();
  int64_t dense = (s.channels * element + access - 1) / access * access;
  const auto append = [&](int64_t extent, int64_t elements) {
    // The step of an axis of extent 1 is never taken, but must be one.
    const int64_t step = extent == 1 ? dense : elements * element;
    steps[rank - 1] = static_cast<uint64_t>(step);
    extents[rank++] = static_cast<uint64_t>(extent);
    dense = step * extent;
  };
  extents[rank++] = static_cast<uint64_t>(s.channels);
  append(p.in_width, s.pixel), append(p.in_height, s.row);
  if (p.depth) append(p.depth->in, s.plane);
  append(p.n, s.image);
  for (int64_t axis = 0; axis < spatial; ++axis) {
    const AlongAxis a = p.along(static_cast<int>(spatial - 1 - axis));
    first[axis] = static_cast<int32_t>(-a.pad), last[axis] = static_cast<int32_t>(a.last());
    strides[1 + axis] = static_cast<uint32_t>(a.stride);
  }
  channels = static_cast<uint32_t>(p.line()), pixels = static_cast<uint32_t>(windows);
  swizzle = matmul::tensor_map_swizzle(p.line_bytes);
}

void WindowMap::encode(kernels::TensorMap& map, const void* address) const {
  abi::TensorMap made;
  device::cuda::check(device::cuda::driver().tensor_map_im2col(
                          &made, type, rank, const_cast<void*>(address), extents, steps, first, last, channels, pixels, strides,
                          abi::tensor_map_no_interleave, swizzle, abi::tensor_map_promote_256, abi::tensor_map_fill_zeros),
                      "describing a convolution's windows");
  static_assert(sizeof map == sizeof made);
  std::memcpy(&map, &made, sizeof map);
}

}  // namespace smelt::ops::conv
