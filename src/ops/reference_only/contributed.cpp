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

// --- Inverse ------------------------------------------------------------------------------------------------------

void infer_inverse(InferContext& c) {
  if (!is_float(type_of(c, 0))) fail("input 0 has type {}, expected floats", name(c.in(0).type));
  if (c.in(0).shape_known) {
    const Shape& s = c.shape(0);
    if (s.size() < 2 || s[s.size() - 1] != s[s.size() - 2])
      fail("the input has shape {}, expected square matrices", to_string(s));
  }
  same_as(c, 0, 0);
}

/// Gauss-Jordan elimination with the largest pivot of each column: `m` [n, 2 n], a matrix beside the identity, becomes the identity
/// beside its inverse. False where it has none.
bool invert(std::vector<double>& m, size_t n) {
  const auto row = [&](size_t r) { return m.begin() + static_cast<std::ptrdiff_t>(r * 2 * n); };
  for (size_t column = 0; column < n; ++column) {
    check_stop();
    size_t pivot = column;
    for (size_t r = column + 1; r < n; ++r)
      if (std::abs(m[r * 2 * n + column]) > std::abs(m[pivot * 2 * n + column])) pivot = r;
    const double value = m[pivot * 2 * n + column];
    if (value == 0) return false;
    if (pivot != column) std::swap_ranges(row(pivot), row(pivot + 1), row(column));
    for (size_t k = 0; k < 2 * n; ++k) m[column * 2 * n + k] /= value;
    for (size_t r = 0; r < n; ++r) {
      const double factor = m[r * 2 * n + column];
      if (r == column || factor == 0) continue;
      for (size_t k = column; k < 2 * n; ++k) m[r * 2 * n + k] -= factor * m[column * 2 * n + k];
    }
  }
  return true;
}

void run_inverse(ComputeContext& context) {
  in_float(context, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const size_t n = static_cast<size_t>(c.in(0).shape().back());
    const int64_t count = n == 0 ? 0 : c.in(0).size() / static_cast<int64_t>(n * n);
    std::vector<double> m(2 * n * n);
    for (int64_t i = 0; i < count; ++i) {
      const T* x = c.in(0).data<T>() + static_cast<size_t>(i) * n * n;
      T* y = c.outputs[0].data<T>() + static_cast<size_t>(i) * n * n;
      for (size_t r = 0; r < n; ++r)
        for (size_t k = 0; k < n; ++k) {
          m[r * 2 * n + k] = static_cast<double>(x[r * n + k]);
          m[r * 2 * n + n + k] = r == k;
        }
      if (!invert(m, n)) fail("matrix {} has no inverse", i);
      for (size_t r = 0; r < n; ++r)
        for (size_t k = 0; k < n; ++k) y[r * n + k] = static_cast<T>(m[r * 2 * n + n + k]);
    }
  });
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

// --- LinearAttention ----------------------------------------------------------------------------------------------

struct LinearHeads {
  int64_t queries, keys, values;  // heads
  int64_t key_size, value_size;
};

enum LinearInput : size_t { linear_query, linear_key, linear_value, linear_past, linear_decay, linear_beta };

LinearHeads linear_heads(const Node& node, const Shape& q, const Shape& k, const Shape& v) {
  LinearHeads h{node.get_int("q_num_heads", 0), 0, node.get_int("kv_num_heads", 0), 0, 0};
  if (h.queries < 1 || h.values < 1 || (h.queries % h.values != 0 && h.values % h.queries != 0))
    fail("q_num_heads is {} and kv_num_heads {}, expected one to divide the other", h.queries, h.values);
  if (q.size() != 3 || k.size() != 3 || v.size() != 3 || q[0] != k[0] || q[0] != v[0] || q[1] != k[1] || q[1] != v[1])
    fail("query, key and value have shapes {}, {} and {}, expected [B, T, width]", to_string(q), to_string(k), to_string(v));
  h.key_size = q[2] / h.queries;
  h.value_size = v[2] / h.values;
  h.keys = h.key_size == 0 ? 0 : k[2] / h.key_size;
  if (q[2] % h.queries != 0 || v[2] % h.values != 0 || h.keys < 1 || k[2] % h.key_size != 0 || h.values % h.keys != 0)
    fail("query, key and value of {}, {} and {} do not divide among {} and {} heads", q[2], k[2], v[2], h.queries, h.values);
  return h;
}

void infer_linear_attention(InferContext& c) {
  for (size_t i = 0; i < 6; ++i)
    if (i < 3 || c.has(i)) expect_type(c, i, DType::f32);
  const std::string rule = c.node.get_string("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    fail("update_rule is '{}', expected 'linear', 'gated', 'delta' or 'gated_delta'", rule);
  if (rule.starts_with("gated") && !c.has(linear_decay)) fail("update_rule '{}' needs input 4 (decay)", rule);
  if (rule.ends_with("delta") && !c.has(linear_beta)) fail("update_rule '{}' needs input 5 (beta)", rule);
  if (c.node.get_int("state_window", 0) != 0) fail("state_window is {}, expected 0", c.node.get_int("state_window", 0));
  for (size_t i = 0; i < 6; ++i)
    if (c.has(i) && !c.in(i).shape_known) {
      c.set_type(0, DType::f32);
      return c.set_type(1, DType::f32);
    }
  const Shape& v = c.shape(linear_value);
  const LinearHeads h = linear_heads(c.node, c.shape(linear_query), c.shape(linear_key), v);
  const Shape state{v[0], h.values, h.key_size, h.value_size};
  if (c.has(linear_past) && c.shape(linear_past) != state)
    fail("the past state has shape {}, expected {}", to_string(c.shape(linear_past)), to_string(state));
  const auto expect_gate = [&](size_t i, int64_t one, int64_t other) {
    if (!c.has(i)) return;
    const Shape& s = c.shape(i);
    if (s.size() != 3 || s[0] != v[0] || s[1] != v[1] || (s[2] != one && s[2] != other))
      fail("input {} has shape {}, expected [{}, {}, {} or {}]", i, to_string(s), v[0], v[1], one, other);
  };
  expect_gate(linear_decay, h.values, h.values * h.key_size);
  expect_gate(linear_beta, h.values, 1);
  c.set(0, DType::f32, {v[0], v[1], std::max(h.queries, h.values) * h.value_size});
  c.set(1, DType::f32, state);
}

/// y += a * x
void add_scaled(float* __restrict y, const float* __restrict x, float a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

// S = exp(decay) S + beta k (v - S' k), of which each part is there where update_rule has it, and y = scale q S for each query.
void run_linear_attention(ComputeContext& c) {
  const Shape &q_shape = c.in(linear_query).shape(), &k_shape = c.in(linear_key).shape(), &v_shape = c.in(linear_value).shape();
  const LinearHeads h = linear_heads(c.node, q_shape, k_shape, v_shape);
  const std::string rule = c.node.get_string("update_rule", "gated_delta");
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  float scale = c.node.get_float("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(h.key_size));
  const int64_t steps = v_shape[1], dk = h.key_size, dv = h.value_size, out = std::max(h.queries, h.values) * dv;
  const float* decay = gated ? c.in(linear_decay).data<float>() : nullptr;
  const float* beta = delta ? c.in(linear_beta).data<float>() : nullptr;
  const int64_t decays = gated ? c.in(linear_decay).shape()[2] : 0, betas = delta ? c.in(linear_beta).shape()[2] : 0;
  std::vector<float> s(static_cast<size_t>(dk * dv)), fresh(static_cast<size_t>(dv));
  for (int64_t b = 0; b < v_shape[0]; ++b) {
    for (int64_t head = 0; head < h.values; ++head) {
      if (c.has(linear_past))
        std::copy_n(c.in(linear_past).data<float>() + (b * h.values + head) * dk * dv, s.size(), s.begin());
      else
        std::ranges::fill(s, 0.0f);
      const int64_t of_key = head / (h.values / h.keys);
      const int64_t queries = std::max<int64_t>(h.queries / h.values, 1);
      const int64_t first_query = h.queries >= h.values ? head * queries : head * h.queries / h.values;
      for (int64_t t = 0; t < steps; ++t) {
        check_stop();
        const int64_t at = b * steps + t;
        const float* k = c.in(linear_key).data<float>() + at * k_shape[2] + of_key * dk;
        const float* v = c.in(linear_value).data<float>() + at * v_shape[2] + head * dv;
        for (int64_t i = 0; gated && i < dk; ++i) {
          const float by = std::exp(decays == h.values ? decay[at * decays + head] : decay[at * decays + head * dk + i]);
          for (int64_t j = 0; j < dv; ++j) s[static_cast<size_t>(i * dv + j)] *= by;
        }
        std::copy_n(v, dv, fresh.begin());
        if (delta) {
          for (int64_t i = 0; i < dk; ++i) add_scaled(fresh.data(), s.data() + i * dv, -k[i], dv);
          const float by = beta[at * betas + (betas == 1 ? 0 : head)];
          for (float& f : fresh) f *= by;
        }
        for (int64_t i = 0; i < dk; ++i) add_scaled(s.data() + i * dv, fresh.data(), k[i], dv);
        for (int64_t g = 0; g < queries; ++g) {
          const float* q = c.in(linear_query).data<float>() + at * q_shape[2] + (first_query + g) * dk;
          float* y = c.outputs[0].data<float>() + at * out + (head * queries + g) * dv;
          std::fill_n(y, dv, 0.0f);
          for (int64_t i = 0; i < dk; ++i) add_scaled(y, s.data() + i * dv, q[i] * scale, dv);
        }
      }
      if (c.wants(1)) std::ranges::copy(s, c.outputs[1].data<float>() + (b * h.values + head) * dk * dv);
    }
  }
}

}  // namespace

std::span<const OpRow> contributed_ops() {
  static constexpr OpRow table[] = {
      {{"Inverse", microsoft_domain, infer_inverse, run_inverse}, {.half = Half::wide}},
      {{"CropAndResize", microsoft_domain, infer_crop_and_resize, run_crop_and_resize}},
      {{"NGramRepeatBlock", microsoft_domain, infer_ngram_repeat_block, run_ngram_repeat_block}},
      {{"MurmurHash3", microsoft_domain, infer_murmur_hash, run_murmur_hash}},
      {{"DynamicTimeWarping", microsoft_domain, infer_dynamic_time_warping, run_dynamic_time_warping}, {.data_dependent = true}},
      {{"LinearAttention", microsoft_domain, infer_linear_attention, run_linear_attention}},
  };
  return table;
}

}  // namespace smelt::ops
