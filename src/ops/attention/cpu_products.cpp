// ai.smelt.Attention of f64: some query rows of a head at a time, their scores by one product, the weights times the values by another.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/number.h"
#include "base/value_of.h"
#include "expr/cpu.h"
#include "expr/simd/widest.h"
#include "ops/attention/offer.h"
#include "ops/attention/shape.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/wide/gemm.h"

namespace smelt::ops {
namespace {

/// Rows whose scores stay in the L2 cache.
int64_t rows_of_task(const AttentionShape& s) {
  constexpr int64_t scores = int64_t{1} << 15;
  return std::min(s.queries, std::clamp<int64_t>(scores / std::max<int64_t>(s.keys, 1), 4, 64));
}

class AttentionProducts final : public Kernel {
 public:
  AttentionProducts(const BoundNode& b, int threads)
      : s_(*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape),
        threads_(threads),
        rows_(rows_of_task(s_)),
        blocks_(divide_up(s_.queries, rows_)),
        scores_{{wide::Type::f64, rows_, s_.keys, s_.depth, 1}, {wide::Type::f64, last_rows(), s_.keys, s_.depth, 1}},
        sums_{{wide::Type::f64, rows_, s_.value_depth, s_.keys, 1}, {wide::Type::f64, last_rows(), s_.value_depth, s_.keys, 1}} {
    for (size_t i = 0; i < 3; ++i) strides_[i] = memory_strides(b.inputs[i]);
    strides_[3] = memory_strides(b.outputs[0]);
    for (const auto* products : {&scores_, &sums_})
      for (const wide::Gemm& p : *products) product_bytes_ = std::max(product_bytes_, aligned(p.workspace()));
    if (!b.node->program) return;
    evaluator_.emplace(*b.node->program, simd::widest(), s_.keys);
    evaluator_bytes_ = aligned(evaluator_->scratch());
    for (size_t i = 3; i < b.inputs.size(); ++i) {
      operand_strides_.push_back(broadcast_strides(b.inputs[i], 4));
      operand_bytes_.push_back(bits(b.inputs[i].type) / 8);
    }
  }

  int64_t workspace() const override { return threads_ * thread_bytes(); }

  void run(const Buffers& b) override {
    parallel_dynamic(threads_, s_.batch * s_.heads * blocks_, [&](int64_t task, int thread) {
      char* memory = static_cast<char*>(b.workspace) + thread * thread_bytes();
      block(b, task / blocks_, task % blocks_, reinterpret_cast<double*>(memory), memory + scores_bytes());
    });
  }

 private:
  int64_t last_rows() const { return s_.queries - (blocks_ - 1) * rows_; }
  int64_t scores_bytes() const { return aligned(rows_ * s_.keys * 8); }
  int64_t operands_bytes() const { return aligned(static_cast<int64_t>(sizeof(expr::Operand) * (operand_bytes_.size() + 1))); }
  int64_t thread_bytes() const { return scores_bytes() + std::max(product_bytes_, operands_bytes() + evaluator_bytes_); }
  const double* at(const void* data, size_t which, int64_t batch, int64_t head, int64_t row) const {
    const Shape& s = strides_[which];
    return static_cast<const double*>(data) + batch * s[0] + head * s[1] + row * s[2];
  }

  void block(const Buffers& b, int64_t pair, int64_t number, double* scores, char* memory) const {
    const int64_t batch = pair / s_.heads, head = pair % s_.heads, kv = s_.kv_pair(pair) % s_.kv_heads;
    const int64_t first = number * rows_, rows = std::min(rows_, s_.queries - first);
    const size_t which = number + 1 == blocks_ ? 1 : 0;
    const Shape &q = strides_[0], &k = strides_[1], &v = strides_[2];
    const int64_t along_depth = s_.k_transposed ? k[2] : k[3], along_keys = s_.k_transposed ? k[3] : k[2];
    scores_[which].run({at(b.inputs[0], 0, batch, head, first), q[2], q[3]},
                       {at(b.inputs[1], 1, batch, kv, 0), along_depth, along_keys}, scores, s_.keys, memory);
    for (int64_t i = 0; i < rows * s_.keys; ++i) scores[i] *= s_.scale;
    for (int64_t r = 0; r < rows; ++r) {
      double* row = scores + r * s_.keys;
      if (evaluator_) apply_program(b, batch, head, first + r, row, memory);
      weigh(row);
    }
    double* y = const_cast<double*>(at(b.outputs[0], 3, batch, head, first));
    sums_[which].run({scores, s_.keys, 1}, {at(b.inputs[2], 2, batch, kv, 0), v[2], v[3]}, y, strides_[3][2], memory);
  }

  void apply_program(const Buffers& b, int64_t batch, int64_t head, int64_t query, double* row, char* memory) const {
    auto* operands = reinterpret_cast<expr::Operand*>(memory);
    operands[0] = {row, 1};
    for (size_t i = 0; i < operand_bytes_.size(); ++i) {
      const Shape& s = operand_strides_[i];
      operands[i + 1] = {
          static_cast<const char*>(b.inputs[i + 3]) + (batch * s[0] + head * s[1] + query * s[2]) * operand_bytes_[i], s[3]};
    }
    void* out = row;
    value_of(evaluator_, "the evaluator of the scores' program")
        .run(s_.keys, {operands, operand_bytes_.size() + 1}, {&out, 1}, memory + operands_bytes());
  }

  /// Scores become weights.
  void weigh(double* row) const {
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t j = 0; j < s_.keys; ++j) top = std::max(top, row[j]);
    for (int64_t j = 0; j < s_.keys; ++j) total += row[j] = std::exp(row[j] - top);
    for (int64_t j = 0; j < s_.keys; ++j) {
      row[j] /= total;
      if (s_.nan_guard && std::isnan(row[j])) row[j] = 0;
    }
  }

  AttentionShape s_;
  int threads_;
  int64_t rows_, blocks_;
  wide::Gemm scores_[2], sums_[2];  // of whole blocks, and of the last
  Shape strides_[4];                // q, k, v, y
  std::optional<expr::Evaluator> evaluator_;
  std::vector<Shape> operand_strides_;  // over [batch, head, query, key]
  std::vector<int64_t> operand_bytes_;
  int64_t product_bytes_ = 0, evaluator_bytes_ = 0;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  for (size_t i = 0; i < 3; ++i)
    if (b.inputs[i].type != DType::f64) return refuse(Reason::wrong_type, "q, k, v and y differ in type");
  if (const auto& p = b.node->program; p && (p->type(0) != DType::f64 || p->type(p->outputs()[0]) != DType::f64))
    return refuse(Reason::wrong_type, "a program that is not over f64");
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.layout != Layout::plain) return refuse(Reason::wrong_layout, "a tensor is not plain");
  const BoundTensor& y = b.outputs[0];
  if (y.shape[3] > 1 && memory_strides(y)[3] != 1) return refuse(Reason::wrong_layout, "the elements of a row are apart");
  if (elements(y.shape) == 0) return refuse(Reason::wrong_shape, "an empty result");
  return std::nullopt;
}

}  // namespace

void offer_attention_products(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  const AttentionShape s(*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape);
  const double scores = static_cast<double>(s.batch * s.heads) * static_cast<double>(s.queries * s.keys);
  const double us = scores * (static_cast<double>(s.depth + s.value_depth) / 15e3 + 1 / 100.0);
  offer.candidates.push_back({"cpu", "products", 2 + us / machine.threads, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<AttentionProducts>(bound, threads);
                              }});
}

}  // namespace smelt::ops
