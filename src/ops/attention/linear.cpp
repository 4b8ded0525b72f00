#include "ops/attention/linear.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/stop.h"
#include "ops/core/list_inputs.h"

namespace smelt::ops {

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

float linear_scale(const Node& node, const LinearHeads& h) {
  const float scale = node.get_float("scale", 0);
  return scale == 0 ? 1 / std::sqrt(static_cast<float>(h.key_size)) : scale;
}

namespace {

void expect_type(const InferContext& c, size_t i, DType type) {
  if (type_of(c, i) != type) fail("input {} has type {}, expected {}", i, name(c.in(i).type), name(type));
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
  const float scale = linear_scale(c.node, h);
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

std::span<const OpRow> linear_attention_ops() {
  static constexpr OpRow table[] = {
      {{"LinearAttention", microsoft_domain, infer_linear_attention, run_linear_attention}},
  };
  return table;
}

}  // namespace smelt::ops
