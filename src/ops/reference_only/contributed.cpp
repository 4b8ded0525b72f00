// Operators of ONNX Runtime's own that models have beside ONNX's, in plain loops.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/stop.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/reference_only/family.h"

namespace smelt::ops {
namespace {

void expect_rank(const InferContext& c, size_t i, size_t rank) {
  if (c.in(i).shape_known && c.shape(i).size() != rank)
    fail("input {} has shape {}, expected rank {}", i, to_string(c.shape(i)), rank);
}

void expect_type(const InferContext& c, size_t i, DType type) {
  if (type_of(c, i) != type) fail("input {} has type {}, expected {}", i, name(c.in(i).type), name(type));
}

// --- CropAndResize ------------------------------------------------------------------------------------------------

// x [N, C, H, W], boxes [R, 4] (y1, x1, y2, x2; 0 and 1: an image's first and last pixel), whose image [R], the size of a crop [2]
void infer_crop_and_resize(InferContext& c) {
  for (const size_t i : {size_t{0}, size_t{1}}) expect_type(c, i, DType::f32);
  for (const size_t i : {size_t{2}, size_t{3}}) expect_type(c, i, DType::i32);
  expect_rank(c, 0, 4);
  expect_rank(c, 1, 2);
  expect_rank(c, 2, 1);
  if (c.in(1).shape_known && c.shape(1)[1] != 4) fail("input 1 has shape {}, expected [boxes, 4]", to_string(c.shape(1)));
  if (c.in(1).shape_known && c.in(2).shape_known && c.shape(1)[0] != c.shape(2)[0])
    fail("input 2 has shape {} for {} boxes", to_string(c.shape(2)), c.shape(1)[0]);
  const std::string mode = c.node.get_string("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest") fail("mode is '{}', expected 'bilinear' or 'nearest'", mode);
  if (c.in(3).shape_known && c.shape(3) != Shape{2}) fail("input 3 has shape {}, expected [2]", to_string(c.shape(3)));
  const auto size = c.ints(3);
  if (size && (size->at(0) < 1 || size->at(1) < 1)) fail("the size of a crop is {}, expected 1 or more", to_string(*size));
  if (!size || !c.in(0).shape_known || !c.in(1).shape_known) return c.set_type(0, DType::f32);
  c.set(0, DType::f32, {c.shape(1)[0], c.shape(0)[1], size->at(0), size->at(1)});
}

/// Where the crop's element `i` of `n` along an axis lies in an image of `extent`.
float place(float first, float last, int64_t i, int64_t n, int64_t extent) {
  const auto reach = static_cast<float>(extent - 1);
  if (n == 1) return static_cast<float>(0.5 * static_cast<double>(first + last) * static_cast<double>(reach));
  if (i == n - 1) return last * reach;
  return first * reach + static_cast<float>(i) * ((last - first) * reach / static_cast<float>(n - 1));
}

void run_crop_and_resize(ComputeContext& c) {
  const Tensor &x = c.in(0), &boxes = c.in(1);
  const auto size = c.in(3).to_ints();
  const int64_t channels = x.shape()[1], height = x.shape()[2], width = x.shape()[3], count = boxes.shape()[0];
  const int64_t rows = size[0], columns = size[1];
  const bool nearest = c.node.get_string("mode", "bilinear") == "nearest";
  const float outside = c.node.get_float("extrapolation_value", 0);
  float* y = allocated(c, 0, DType::f32, {count, channels, rows, columns}).data<float>();
  for (int64_t b = 0; b < count; ++b) {
    check_stop();
    const int64_t image = c.in(2).data<int32_t>()[b];
    if (image < 0 || image >= x.shape()[0]) fail("box {} is of image {}, expected 0 to {}", b, image, x.shape()[0] - 1);
    const float *box = boxes.data<float>() + b * 4, *from = x.data<float>() + image * channels * height * width;
    for (int64_t i = 0; i < rows; ++i) {
      const float at_y = place(box[0], box[2], i, rows, height);
      for (int64_t j = 0; j < columns; ++j) {
        const float at_x = place(box[1], box[3], j, columns, width);
        float* to = y + (b * channels * rows + i) * columns + j;
        // Written so that a place that is not a number lies outside.
        const bool within =
            at_y >= 0 && at_y <= static_cast<float>(height - 1) && at_x >= 0 && at_x <= static_cast<float>(width - 1);
        const auto pixel = [&](int64_t channel, float row, float column) {
          return from[(channel * height + static_cast<int64_t>(row)) * width + static_cast<int64_t>(column)];
        };
        for (int64_t channel = 0; channel < channels; ++channel, to += rows * columns) {
          if (!within) {
            *to = outside;
          } else if (nearest) {
            *to = pixel(channel, std::round(at_y), std::round(at_x));
          } else {
            const float top = std::floor(at_y), bottom = std::ceil(at_y), left = std::floor(at_x), right = std::ceil(at_x);
            const auto between = [&](float row) {
              const float a = pixel(channel, row, left);
              return a + (pixel(channel, row, right) - a) * (at_x - left);
            };
            const float above = between(top);
            *to = above + (between(bottom) - above) * (at_y - top);
          }
        }
      }
    }
  }
}

// --- NGramRepeatBlock ---------------------------------------------------------------------------------------------

void infer_ngram_repeat_block(InferContext& c) {
  expect_type(c, 0, DType::i64);
  expect_type(c, 1, DType::f32);
  expect_rank(c, 0, 2);
  expect_rank(c, 1, 2);
  if (const int64_t n = c.node.get_int("ngram_size", 0); n < 1) fail("ngram_size is {}, expected 1 or more", n);
  if (c.in(0).shape_known && c.in(1).shape_known && c.shape(0)[0] != c.shape(1)[0])
    fail("input 0 has shape {} and input 1 {}, expected the same batch", to_string(c.shape(0)), to_string(c.shape(1)));
  same_as(c, 0, 1);
}

// The scores, -inf for each token that has followed the last ngram_size - 1 before.
void run_ngram_repeat_block(ComputeContext& c) {
  const int64_t length = c.in(0).shape()[1], words = c.in(1).shape()[1], size = c.node.get_int("ngram_size", 0);
  std::memcpy(c.outputs[0].raw(), c.in(1).raw(), static_cast<size_t>(c.in(1).nbytes()));
  if (size > length) return;
  for (int64_t b = 0; b < c.in(0).shape()[0]; ++b) {
    const int64_t* ids = c.in(0).data<int64_t>() + b * length;
    const int64_t* last = ids + length - (size - 1);
    for (int64_t i = 0; i + size <= length; ++i) {
      if (!std::equal(last, ids + length, ids + i)) continue;
      const int64_t token = ids[i + size - 1];
      if (token < 0 || token >= words) fail("token {} at [{}, {}], expected 0 to {}", token, b, i + size - 1, words - 1);
      c.outputs[0].data<float>()[b * words + token] = -std::numeric_limits<float>::infinity();
    }
  }
}

// --- MurmurHash3 --------------------------------------------------------------------------------------------------

void infer_murmur_hash(InferContext& c) {
  const DType type = type_of(c, 0);
  if (type != DType::string && type != DType::i32 && type != DType::u32 && type != DType::i64 && type != DType::u64 &&
      type != DType::f32 && type != DType::f64)
    fail("input 0 has type {}, expected string or numbers of 32 or 64 bits", name(type));
  const DType result = c.node.get_int("positive", 1) != 0 ? DType::u32 : DType::i32;
  if (!c.in(0).shape_known) return c.set_type(0, result);
  c.set(0, result, c.shape(0));
}

/// The 32-bit form of MurmurHash3 for x86 (public domain).
uint32_t murmur_hash(const char* data, size_t bytes, uint32_t seed) {
  constexpr uint32_t c1 = 0xcc9e2d51, c2 = 0x1b873593;
  const auto rotated = [](uint32_t v, int by) { return (v << by) | (v >> (32 - by)); };
  uint32_t h = seed;
  const size_t whole = bytes / 4;
  for (size_t i = 0; i <= whole; ++i) {
    const size_t part = std::min<size_t>(4, bytes - i * 4);
    if (part == 0) break;
    uint32_t k = 0;
    std::memcpy(&k, data + i * 4, part);
    h ^= rotated(k * c1, 15) * c2;
    if (part == 4) h = rotated(h, 13) * 5 + 0xe6546b64;
  }
  h ^= static_cast<uint32_t>(bytes);
  h = (h ^ (h >> 16)) * 0x85ebca6b;
  h = (h ^ (h >> 13)) * 0xc2b2ae35;
  return h ^ (h >> 16);
}

void run_murmur_hash(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const auto seed = static_cast<uint32_t>(c.node.get_int("seed", 0));
  auto* y = static_cast<uint32_t*>(c.outputs[0].raw());
  if (x.type() == DType::string) {
    std::ranges::transform(x.strings(), y, [&](const std::string& s) { return murmur_hash(s.data(), s.size(), seed); });
    return;
  }
  const size_t each = x.size() == 0 ? 0 : static_cast<size_t>(x.nbytes() / x.size());
  const auto* bytes = static_cast<const char*>(x.raw());
  for (int64_t i = 0; i < x.size(); ++i) y[i] = murmur_hash(bytes + static_cast<size_t>(i) * each, each, seed);
}

// --- DynamicTimeWarping -------------------------------------------------------------------------------------------

void infer_dynamic_time_warping(InferContext& c) {
  expect_type(c, 0, DType::f32);
  if (c.in(0).shape_known) {
    const Shape& s = c.shape(0);
    if (!(s.size() == 2 || (s.size() == 3 && s[0] == 1)) || s[s.size() - 1] < 1 || s[s.size() - 2] < 1)
      fail("the input has shape {}, expected [M, N] or [1, M, N]", to_string(s));
  }
  c.set_type(0, DType::i32);
}

// The path of the least cost from the first to the last element, a step down, right, or both at a time.
void run_dynamic_time_warping(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const int64_t rows = x.shape()[x.rank() - 2], columns = x.shape()[x.rank() - 1];
  enum Step : uint8_t { both, down, right };
  std::vector<Step> steps(static_cast<size_t>(rows * columns));
  std::vector<float> above(static_cast<size_t>(columns) + 1, std::numeric_limits<float>::infinity()), own = above;
  above[0] = 0;
  for (int64_t i = 0; i < rows; ++i) {
    check_stop();
    own[0] = std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < columns; ++j) {
      const size_t at = static_cast<size_t>(j);
      const float costs[] = {above[at], above[at + 1], own[at]};
      const Step step = costs[0] < costs[1] && costs[0] < costs[2]   ? both
                        : costs[1] < costs[0] && costs[1] < costs[2] ? down
                                                                     : right;
      steps[static_cast<size_t>(i * columns + j)] = step;
      own[at + 1] = costs[step] + x.data<float>()[i * columns + j];
    }
    std::swap(above, own);
  }
  std::vector<int32_t> path[2];
  for (int64_t i = rows - 1, j = columns - 1; i >= 0 && j >= 0;) {
    path[0].push_back(static_cast<int32_t>(i));
    path[1].push_back(static_cast<int32_t>(j));
    // At an edge one way is left.
    const Step step = i == 0 ? right : j == 0 ? down : steps[static_cast<size_t>(i * columns + j)];
    i -= step != right;
    j -= step != down;
  }
  const auto length = static_cast<int64_t>(path[0].size());
  c.outputs[0] = Tensor::empty(DType::i32, {2, length});
  for (int64_t r = 0; r < 2; ++r) std::ranges::reverse_copy(path[r], c.outputs[0].data<int32_t>() + r * length);
}

}  // namespace

std::span<const OpRow> contributed_ops() {
  static constexpr OpRow table[] = {
      {{"CropAndResize", microsoft_domain, infer_crop_and_resize, run_crop_and_resize}},
      {{"NGramRepeatBlock", microsoft_domain, infer_ngram_repeat_block, run_ngram_repeat_block}},
      {{"MurmurHash3", microsoft_domain, infer_murmur_hash, run_murmur_hash}},
      {{"DynamicTimeWarping", microsoft_domain, infer_dynamic_time_warping, run_dynamic_time_warping}, {.data_dependent = true}},
  };
  return table;
}

}  // namespace smelt::ops
