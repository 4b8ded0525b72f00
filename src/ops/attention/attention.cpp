// Attention (ONNX): scaled dot products with grouped heads, masks, windows, caches and soft capping.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/attention/attention.h"
#include "ops/attention/family.h"
#include "ops/core/broadcast_operand.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"

namespace smelt::ops {
namespace {

enum Input : size_t { query, key, value, mask, past_key, past_value, valid_lengths };

struct Problem {
  int64_t batch = 0, heads = 0, kv_heads = 0, steps = 0, fresh = 0, past = 0, size = 0, v_size = 0;
  bool packed = false;  // rank 3: heads lie beside each other in the last axis
  int64_t total() const { return past + fresh; }
  int64_t offset(bool is_packed, int64_t head_count, int64_t length, int64_t width, int64_t b, int64_t h, int64_t s) const {
    return is_packed ? ((b * length + s) * head_count + h) * width : ((b * head_count + h) * length + s) * width;
  }
};

/// `past_k` and `past_v` are null where there is no cache.
Problem problem_of(const Node& node, const Shape& q, const Shape& k, const Shape& v, const Shape* past_k, const Shape* past_v) {
  if ((q.size() != 3 && q.size() != 4) || k.size() != q.size() || v.size() != q.size()) {
    fail("Q, K and V have shapes {}, {} and {}, expected rank 3 or 4 for all", to_string(q), to_string(k), to_string(v));
  }
  Problem p;
  p.packed = q.size() == 3;
  p.batch = q[0];
  p.heads = p.packed ? node.get_int("q_num_heads", 0) : q[1];
  p.kv_heads = p.packed ? node.get_int("kv_num_heads", 0) : k[1];
  if (p.heads < 1 || p.kv_heads < 1 || p.heads % p.kv_heads) {
    fail("{} query heads and {} key heads, expected a positive multiple (attributes q_num_heads, kv_num_heads for rank 3)",
         p.heads, p.kv_heads);
  }
  p.steps = q[q.size() - 2];
  p.fresh = k[k.size() - 2];
  p.size = p.packed ? q[2] / p.heads : q[3];
  p.v_size = p.packed ? v[2] / p.kv_heads : v[3];
  if (p.size < 1) fail("the heads of Q {} have no elements, and nothing to scale their products by", to_string(q));
  const Shape as_q = p.packed ? Shape{p.batch, p.steps, p.heads * p.size} : Shape{p.batch, p.heads, p.steps, p.size},
              as_k = p.packed ? Shape{p.batch, p.fresh, p.kv_heads * p.size} : Shape{p.batch, p.kv_heads, p.fresh, p.size},
              as_v = p.packed ? Shape{p.batch, p.fresh, p.kv_heads * p.v_size} : Shape{p.batch, p.kv_heads, p.fresh, p.v_size};
  if (q != as_q || k != as_k || v != as_v)
    fail("Q, K and V have shapes {}, {} and {}, which do not agree: {} query heads of {} and {} key heads are {}, {} and {}",
         to_string(q), to_string(k), to_string(v), p.heads, p.size, p.kv_heads, to_string(as_q), to_string(as_k),
         to_string(as_v));
  if ((past_k != nullptr) != (past_v != nullptr)) fail("past_key and past_value come together");
  if (past_k) {
    if (past_k->size() != 4) fail("past_key has shape {}, expected rank 4", to_string(*past_k));
    p.past = (*past_k)[2];
    const Shape cached_k{p.batch, p.kv_heads, p.past, p.size}, cached_v{p.batch, p.kv_heads, p.past, p.v_size};
    if (*past_k != cached_k || *past_v != cached_v)
      fail("past_key and past_value have shapes {} and {}, expected {} and {}", to_string(*past_k), to_string(*past_v),
           to_string(cached_k), to_string(cached_v));
  }
  return p;
}

/// The lengths of the keys that count, one for each item of the batch.
void check_lengths(const Problem& p, const Shape& lengths) {
  if (lengths != Shape{p.batch}) fail("nonpad_kv_seqlen has shape {}, expected [{}]", to_string(lengths), p.batch);
}

Problem problem_of(const ComputeContext& c) {
  return problem_of(c.node, c.in(query).shape(), c.in(key).shape(), c.in(value).shape(),
                    c.has(past_key) ? &c.in(past_key).shape() : nullptr, c.has(past_value) ? &c.in(past_value).shape() : nullptr);
}

/// [batch, kv heads, past + fresh, width] of a cache and what comes after it, widened.
template <class T> std::vector<T> joined(const Problem& p, const Tensor& fresh, const Tensor& past, int64_t width) {
  std::vector<T> out(static_cast<size_t>(p.batch * p.kv_heads * p.total() * width));
  T* to = out.data();
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.kv_heads; ++h) {
      if (p.past) to = std::copy_n(past.data<T>() + (b * p.kv_heads + h) * p.past * width, p.past * width, to);
      for (int64_t s = 0; s < p.fresh; ++s) {
        to = std::copy_n(fresh.data<T>() + p.offset(p.packed, p.kv_heads, p.fresh, width, b, h, s), width, to);
      }
    }
  }
  return out;
}

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// What is added to the score of a query and a key: 0, the mask's value, or minus infinity.
template <class T> class Bias {
 public:
  Bias(const ComputeContext& c, const Problem& p) : p_(p) {
    causal_ = c.node.get_int("is_causal", 0) != 0;
    left_ = c.node.get_int("left_window_size", -1);
    right_ = c.node.get_int("right_window_size", -1);
    if (c.has(valid_lengths)) lengths_ = c.in(valid_lengths).to_ints();
    for (int64_t& length : lengths_) length = std::clamp<int64_t>(length, 0, p.total());
    if (!c.has(mask)) return;
    boolean_ = c.in(mask).type() == DType::boolean;
    tensor_ = c.in(mask);
    Shape shape = tensor_.shape();
    while (shape.size() < 4) shape.insert(shape.begin(), 1);
    columns_ = shape[3];
    strides_ = strides(shape);
    for (size_t d = 0; d < 4; ++d) {
      if (shape[d] == 1) strides_[d] = 0;
    }
    if (columns_ == 1) columns_ = p.total();  // it broadcasts
  }
  double operator()(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t offset = p_.past;
    if (!lengths_.empty()) {
      const int64_t length = lengths_[static_cast<size_t>(b)];
      if (j >= length) return minus_infinity;
      offset = length - p_.steps;
    }
    const int64_t position = i + offset;
    if (causal_ && j > position) return minus_infinity;
    if (left_ >= 0 && position - j > left_) return minus_infinity;
    if (right_ >= 0 && j - position > right_) return minus_infinity;
    if (!tensor_.valid()) return 0;
    if (j >= columns_) return minus_infinity;
    const int64_t at = b * strides_[0] + h * strides_[1] + i * strides_[2] + j * strides_[3];
    if (boolean_) return tensor_.data<bool>()[at] ? 0 : minus_infinity;
    return static_cast<double>(tensor_.data<T>()[at]);
  }

 private:
  const Problem& p_;
  Tensor tensor_;
  Shape strides_;
  std::vector<int64_t> lengths_;
  int64_t left_ = -1, right_ = -1, columns_ = 0;
  bool causal_ = false, boolean_ = false;
};

/// exp(x - max) / sum in place; a row that is all minus infinity becomes zeros.
void softmax_row(std::vector<double>& row) {
  double largest = minus_infinity, sum = 0;
  for (double v : row) largest = std::max(largest, v);
  if (largest == minus_infinity) return std::fill(row.begin(), row.end(), 0.0);
  for (double& v : row) sum += v = std::exp(v - largest);
  for (double& v : row) v /= sum;
}

void infer_attention(InferContext& c) {
  const Problem p =
      problem_of(c.node, c.shape(query), c.shape(key), c.shape(value), c.has(past_key) ? &c.shape(past_key) : nullptr,
                 c.has(past_value) ? &c.shape(past_value) : nullptr);
  if (const int64_t mode = c.node.get_int("qk_matmul_output_mode", 0); mode < 0 || mode > 3)
    fail("qk_matmul_output_mode is {}, expected 0 to 3", mode);
  if (c.has(valid_lengths)) check_lengths(p, c.shape(valid_lengths));
  if (c.has(mask)) {
    Shape all{p.batch, p.heads, p.steps, p.total()}, given = c.shape(mask);
    if (!given.empty() && given.back() < p.total()) all.back() = given.back();  // a shorter mask hides what is behind it
    broadcast_strides(given, all);
  }
  c.set(0, type_of(c, query),
        p.packed ? Shape{p.batch, p.steps, p.heads * p.v_size} : Shape{p.batch, p.heads, p.steps, p.v_size});
  c.set(1, type_of(c, key), {p.batch, p.kv_heads, p.total(), p.size});
  c.set(2, type_of(c, value), {p.batch, p.kv_heads, p.total(), p.v_size});
  c.set(3, type_of(c, query), {p.batch, p.heads, p.steps, p.total()});
}

void run_attention(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Problem p = problem_of(c);
    const double scale = c.node.has("scale") ? c.node.get_float("scale", 1) : 1 / std::sqrt(static_cast<double>(p.size));
    const double cap = c.node.get_float("softcap", 0);
    const int64_t mode = c.node.get_int("qk_matmul_output_mode", 0);
    const std::vector<T> k = joined<T>(p, c.in(key), c.in(past_key), p.size),
                         v = joined<T>(p, c.in(value), c.in(past_value), p.v_size);
    const auto wants = [&](size_t i) { return i < c.outputs.size() && c.wants(i); };
    if (wants(1)) std::copy(k.begin(), k.end(), c.outputs[1].template data<T>());
    if (wants(2)) std::copy(v.begin(), v.end(), c.outputs[2].template data<T>());
    T* debug = wants(3) ? c.outputs[3].template data<T>() : nullptr;
    const Bias<T> bias(c, p);
    std::vector<double> scores(static_cast<size_t>(p.total())), sums(static_cast<size_t>(p.v_size));
    const auto show = [&](int64_t at, int64_t stage) {
      if (debug && mode == stage)
        std::transform(scores.begin(), scores.end(), debug + at, [](double s) { return static_cast<T>(s); });
    };
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.heads; ++h) {
        const int64_t kv = (b * p.kv_heads + h / (p.heads / p.kv_heads)) * p.total();
        for (int64_t i = 0; i < p.steps; ++i) {
          const T* q = c.in(query).data<T>() + p.offset(p.packed, p.heads, p.steps, p.size, b, h, i);
          const int64_t at = ((b * p.heads + h) * p.steps + i) * p.total();
          for (int64_t j = 0; j < p.total(); ++j) {
            double dot = 0;
            for (int64_t e = 0; e < p.size; ++e)
              dot += static_cast<double>(q[e]) * static_cast<double>(k[static_cast<size_t>((kv + j) * p.size + e)]);
            scores[static_cast<size_t>(j)] = dot * scale;
          }
          show(at, 0);
          if (cap > 0) {
            for (double& s : scores) s = cap * std::tanh(s / cap);
          }
          show(at, 1);
          for (int64_t j = 0; j < p.total(); ++j) scores[static_cast<size_t>(j)] += bias(b, h, i, j);
          show(at, 2);
          softmax_row(scores);
          show(at, 3);
          std::fill(sums.begin(), sums.end(), 0.0);
          for (int64_t j = 0; j < p.total(); ++j) {
            const double weight = scores[static_cast<size_t>(j)];
            if (weight == 0) continue;  // what is masked does not count, whatever it holds
            for (int64_t e = 0; e < p.v_size; ++e)
              sums[static_cast<size_t>(e)] += weight * static_cast<double>(v[static_cast<size_t>((kv + j) * p.v_size + e)]);
          }
          T* y = c.outputs[0].data<T>() + p.offset(p.packed, p.heads, p.steps, p.v_size, b, h, i);
          std::transform(sums.begin(), sums.end(), y, [](double s) { return static_cast<T>(s); });
        }
      }
    }
  });
}

}  // namespace

std::span<const OpRow> attention_ops() {
  static constexpr OpRow table[] = {
      {{"Attention", onnx_domain, infer_attention, run_attention}, {.contracts = true}},
      {{"RotaryEmbedding", onnx_domain, infer_rotary, run_rotary},
       {.shape = OutShape::input, .flops = {.of_input = 3}, .expands_on_gpu = true}},
      {{"RotaryEmbedding", microsoft_domain, infer_rotary, run_rotary},
       {.shape = OutShape::input, .flops = {.of_input = 3}, .expands_on_gpu = true}},
  };
  return table;
}

}  // namespace smelt::ops
