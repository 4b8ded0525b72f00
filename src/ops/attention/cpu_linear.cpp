// LinearAttention on the processor: a task takes some columns of a head's state through all steps, so that they stay in the L1 cache.
#include <algorithm>
#include <cstring>

#include "expr/simd/isa.h"
#include "ops/attention/linear.h"
#include "ops/attention/simd/linear.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {
namespace {

const LinearTable& table() { return simd::best() == simd::Isa::avx2 ? avx2::linear_table() : base::linear_table(); }

enum Input : size_t { query, key, value, past, decay, beta };
constexpr int64_t columns_each = 64;  // of a task

class LinearAttentionKernel final : public Kernel {
 public:
  LinearAttentionKernel(const BoundNode& b, int threads)
      : heads_(linear_heads(*b.node, b.inputs[query].shape, b.inputs[key].shape, b.inputs[value].shape)),
        scale_(linear_scale(*b.node, heads_)),
        batch_(b.inputs[value].shape[0]),
        steps_(b.inputs[value].shape[1]),
        key_width_(b.inputs[key].shape[2]),
        shared_(std::max<int64_t>(heads_.queries / heads_.values, 1)),
        has_past_(b.has(past)),
        keeps_state_(b.outputs.size() > 1 && b.outputs[1].type != DType::undefined) {
    const std::string rule = b.node->get_string("update_rule", "gated_delta");
    if (rule.starts_with("gated")) decays_ = b.inputs[decay].shape[2];
    if (rule.ends_with("delta")) betas_ = b.inputs[beta].shape[2];
    const int64_t state = batch_ * heads_.values * heads_.key_size * heads_.value_size;
    threads_ = useful_threads(threads, state * (1 + steps_ * (1 + shared_)) / 4);
  }

  int64_t workspace() const override { return threads_ * (scratch_bytes() + (keeps_state_ ? 0 : state_bytes())); }

  void run(const Buffers& b) override {
    const int64_t dk = heads_.key_size, dv = heads_.value_size, parts = (dv + columns_each - 1) / columns_each;
    parallel_dynamic(threads_, batch_ * heads_.values * parts, [&](int64_t task, int thread) {
      const int64_t n = task / parts / heads_.values, head = task / parts % heads_.values, first = task % parts * columns_each;
      char* own = static_cast<char*>(b.workspace) + thread * (scratch_bytes() + (keeps_state_ ? 0 : state_bytes()));
      const auto at = [&](Input i, int64_t offset) { return static_cast<const float*>(b.inputs[i]) + offset; };
      LinearColumns c{};
      c.columns = std::min(columns_each, dv - first);
      const int64_t of_state = (n * heads_.values + head) * dk * dv + first;
      c.state = keeps_state_ ? static_cast<float*>(b.outputs[1]) + of_state : reinterpret_cast<float*>(own + scratch_bytes());
      for (int64_t i = 0; i < dk; ++i) {
        if (has_past_)
          std::memcpy(c.state + i * dv, at(past, of_state + i * dv), static_cast<size_t>(c.columns) * 4);
        else
          std::fill_n(c.state + i * dv, c.columns, 0.0f);
      }
      const int64_t first_query = heads_.queries >= heads_.values ? head * shared_ : head * heads_.queries / heads_.values;
      c.query_step = heads_.queries * dk, c.key_step = key_width_, c.value_step = heads_.values * dv;
      c.result_step = std::max(heads_.queries, heads_.values) * dv;
      c.query = at(query, n * steps_ * c.query_step + first_query * dk);
      c.key = at(key, n * steps_ * c.key_step + head / (heads_.values / heads_.keys) * dk);
      c.value = at(value, n * steps_ * c.value_step + head * dv + first);
      c.result = static_cast<float*>(b.outputs[0]) + n * steps_ * c.result_step + head * shared_ * dv + first;
      if (decays_ > 0) {
        c.decay_of_rows = decays_ != heads_.values;
        c.decay_step = decays_;
        c.decay = at(decay, n * steps_ * decays_ + head * (c.decay_of_rows ? dk : 1));
      }
      if (betas_ > 0) c.beta_step = betas_, c.beta = at(beta, n * steps_ * betas_ + (betas_ == 1 ? 0 : head));
      c.steps = steps_, c.queries = shared_, c.key_size = dk, c.value_size = dv, c.scale = scale_;
      c.scratch = reinterpret_cast<float*>(own);
      table().run(c);
    });
  }

 private:
  int64_t scratch_bytes() const { return aligned((heads_.key_size + 16) * 4); }
  int64_t state_bytes() const { return aligned(heads_.key_size * heads_.value_size * 4); }

  LinearHeads heads_;
  float scale_;
  int64_t batch_, steps_, key_width_, shared_;  // shared_: queries of one state
  int64_t decays_ = 0, betas_ = 0;              // numbers of a step; 0: none
  bool has_past_, keeps_state_;
  int threads_ = 1;
};

}  // namespace

void offer_linear_attention_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.outputs[0].shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty result");
  const auto count = static_cast<double>(elements(b.inputs[key].shape)) * static_cast<double>(b.inputs[value].shape[2]);
  offer.candidates.push_back({"cpu", "", 1 + count / 4e3 / machine.threads, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<LinearAttentionKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
