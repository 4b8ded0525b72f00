// ai.smelt.Attention on the CPU. A task is a strip of query rows of one head: its scores against all keys stay in the L2 cache
// (the score matrix is never written), are made into weights in place, and weigh the values. Keys and values are packed once
// a head where one thread has the whole head; a few queries, as when a decoder makes one token, read them where they lie.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/value_of.h"
#include "expr/cpu.h"
#include "expr/simd/widest.h"
#include "ops/attention/offer.h"
#include "ops/attention/shape.h"
#include "ops/attention/simd/kernel.h"
#include "ops/core/strides.h"
#include "ops/cpu/igemm/tiles.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"

namespace smelt::ops {
namespace {

constexpr int64_t strip_bytes = 128 << 10;  // of scores: a quarter of a small L2 cache
constexpr int64_t longest_strip = 48;
constexpr int64_t few_queries = 3;  // packing the keys and values takes as long as reading them some times
constexpr int64_t align(int64_t floats) { return (floats + 15) / 16 * 16; }

const AttentionSimd& simd_kernels() {
  return simd::widest_of(base::attention_simd, avx2::attention_simd, avx512::attention_simd);
}

/// AttentionSimd::product by the tiles of other products.
void product_by_tiles(const float* a, int64_t lda, int64_t rows, int64_t k, const float* b, int64_t panels, float* c,
                      int64_t ldc) {
  using igemm::tile_columns;
  constexpr int64_t block = 256;  // of K: parts of the panels of a tile stay in the L1 cache
  const igemm::Tiles tiles = igemm::float_tiles();
  for (int64_t from = 0; from == 0 || from < k; from += block) {
    const int32_t length = static_cast<int32_t>(std::min(block, k - from));
    int64_t count = 0;
    for (int64_t p = 0; p < panels; p += count) {
      count = std::min<int64_t>(tiles.most_panels(), panels - p);
      igemm::Tile tile{};
      tile.lengths = &length;
      tile.parts = 1;
      tile.columns = static_cast<int32_t>(count * tile_columns);
      tile.b = b + (p * k + from) * tile_columns;
      if (count == 2) tile.beside = tile.b + k * tile_columns;
      tile.resume = from > 0;
      tile.sums_stride = ldc;
      igemm::for_tiles(tiles, tile, true, rows, [&](int64_t first, int in_tile, igemm::TileRows& at, igemm::Tile& own) {
        for (int r = 0; r < in_tile; ++r) at.a[r] = a + (first + r) * lda + from;
        own.rows = at.a;
        own.sums = c + first * ldc + p * tile_columns;
      });
    }
  }
}

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const BoundNode& b, int threads)
      : s_(*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape),
        simd_(simd_kernels()),
        product_(simd_.product ? simd_.product : product_by_tiles),
        type_(required_float_kind(b.outputs[0].type)),
        bytes_(type_ == FloatKind::f32 ? 4 : 2),
        threads_(threads) {
    for (size_t i = 0; i < 3; ++i) strides_[i] = memory_strides(b.inputs[i]);
    strides_[3] = memory_strides(b.outputs[0]);
    if (b.node->program) {
      evaluator_.emplace(*b.node->program, simd::widest(), s_.keys);
      for (size_t i = 3; i < b.inputs.size(); ++i) {
        operand_strides_.push_back(broadcast_strides(b.inputs[i], 4));
        operand_bytes_.push_back(bits(b.inputs[i].type) / 8);
      }
    }
    score_stride_ = up(s_.keys);
    value_stride_ = up(s_.value_depth);
    constexpr int64_t whole_tiles = 2 * igemm::tile_rows;
    strip_ =
        std::clamp(strip_bytes / 4 / std::max<int64_t>(score_stride_, 1) / whole_tiles * whole_tiles, whole_tiles, longest_strip);
    // Whole heads to a task where there are enough of them; otherwise each head's rows are split, and packed for each part.
    const int64_t pairs = s_.batch * s_.heads, wanted = 4 * threads_;
    parts_ = pairs >= wanted || threads_ == 1 ? 1
                                              : std::clamp((wanted + pairs - 1) / std::max<int64_t>(pairs, 1), int64_t{1},
                                                           (s_.queries + strip_ - 1) / std::max<int64_t>(strip_, 1));
    parts_ = std::max<int64_t>(parts_, 1);
    packs_ = s_.queries > few_queries || s_.k_transposed;
    floats_ = packed_floats() + align(strip_ * s_.depth) + align(strip_ * score_stride_) + align(strip_ * value_stride_) +
              align(strip_);
    thread_bytes_ =
        floats_ * 4 + (evaluator_ ? (evaluator_->scratch() + 63) / 64 * 64 +
                                        static_cast<int64_t>(sizeof(expr::Operand) * (operand_bytes_.size() + 5)) / 64 * 64 + 64
                                  : 0);
  }

  int64_t workspace() const override { return threads_ * thread_bytes_; }

  void run(const Buffers& b) override {
    const int64_t pairs = s_.batch * s_.heads;
    parallel_dynamic(threads_, pairs * parts_, [&](int64_t task, int thread) {
      const int64_t pair = task / parts_, part = task % parts_;
      head(b, pair, s_.queries * part / parts_, s_.queries * (part + 1) / parts_,
           static_cast<char*>(b.workspace) + thread * thread_bytes_);
    });
  }

 private:
  int64_t up(int64_t n) const { return (n + simd_.panel - 1) / simd_.panel * simd_.panel; }
  int64_t packed_floats() const { return packs_ ? align(score_stride_ * s_.depth) + align(s_.keys * value_stride_) : 0; }
  const char* at(const void* data, size_t which, int64_t batch, int64_t head, int64_t row) const {
    const Shape& s = strides_[which];
    return static_cast<const char*>(data) + (batch * s[0] + head * s[1] + row * s[2]) * bytes_;
  }

  /// Rows [begin, end) of one head.
  void head(const Buffers& b, int64_t pair, int64_t begin, int64_t end, char* scratch) const {
    const int64_t batch = pair / s_.heads, head = pair % s_.heads, kv = s_.kv_pair(pair) % s_.kv_heads;
    float* keys = reinterpret_cast<float*>(scratch);
    float* values = keys + align(score_stride_ * s_.depth);
    float* queries = keys + packed_floats();
    float* scores = queries + align(strip_ * s_.depth);
    float* sums = scores + align(strip_ * score_stride_);
    float* factors = sums + align(strip_ * value_stride_);
    const char *k = at(b.inputs[1], 1, batch, kv, 0), *v = at(b.inputs[2], 2, batch, kv, 0);
    if (packs_) {
      if (s_.k_transposed)
        simd_.pack(type_, k, strides_[1][2], s_.depth, s_.keys, keys);
      else
        simd_.pack_transposed(type_, k, strides_[1][2], s_.keys, s_.depth, keys);
      simd_.pack(type_, v, strides_[2][2], s_.keys, s_.value_depth, values);
    }

    for (int64_t row = begin; row < end; row += strip_) {
      const int64_t rows = std::min(strip_, end - row);
      for (int64_t r = 0; r < rows; ++r)
        simd_.load_scaled(type_, at(b.inputs[0], 0, batch, head, row + r), s_.depth, static_cast<float>(s_.scale),
                          queries + r * s_.depth);
      if (packs_) product_(queries, s_.depth, rows, s_.depth, keys, score_stride_ / simd_.panel, scores, score_stride_);
      for (int64_t r = 0; !packs_ && r < rows; ++r)
        simd_.dots(type_, queries + r * s_.depth, k, strides_[1][2], s_.keys, s_.depth, scores + r * score_stride_);
      if (evaluator_) apply_program(b, batch, head, row, rows, scores, scratch + floats_ * 4);
      simd_.softmax(scores, score_stride_, rows, s_.keys, factors, s_.nan_guard);
      if (packs_) product_(scores, score_stride_, rows, s_.keys, values, value_stride_ / simd_.panel, sums, value_stride_);
      for (int64_t r = 0; !packs_ && r < rows; ++r)
        simd_.weigh(type_, scores + r * score_stride_, v, strides_[2][2], s_.keys, s_.value_depth, sums + r * value_stride_);
      for (int64_t r = 0; r < rows; ++r)
        simd_.store_scaled(type_, sums + r * value_stride_, s_.value_depth, factors[r],
                           const_cast<char*>(at(b.outputs[0], 3, batch, head, row + r)));
    }
  }

  void apply_program(const Buffers& b, int64_t batch, int64_t head, int64_t row, int64_t rows, float* scores,
                     char* scratch) const {
    const expr::Evaluator& evaluator = value_of(evaluator_, "the evaluator of the scores' program");
    auto* operands = reinterpret_cast<expr::Operand*>(scratch);
    char* own = scratch + static_cast<int64_t>(sizeof(expr::Operand) * (operand_bytes_.size() + 5)) / 64 * 64 + 64;
    for (int64_t r = 0; r < rows; ++r) {
      void* line = scores + r * score_stride_;
      operands[0] = {line, 1};
      for (size_t i = 0; i < operand_bytes_.size(); ++i) {
        const Shape& s = operand_strides_[i];
        operands[i + 1] = {
            static_cast<const char*>(b.inputs[i + 3]) + (batch * s[0] + head * s[1] + (row + r) * s[2]) * operand_bytes_[i],
            s[3]};
      }
      evaluator.run(s_.keys, {operands, operand_bytes_.size() + 1}, {&line, 1}, own);
    }
  }

  AttentionShape s_;
  const AttentionSimd& simd_;
  decltype(AttentionSimd::product) product_;
  FloatKind type_;
  int64_t bytes_;
  int threads_;
  Shape strides_[4];  // q, k, v, y
  std::optional<expr::Evaluator> evaluator_;
  std::vector<Shape> operand_strides_;  // over [batch, head, query, key]
  std::vector<int64_t> operand_bytes_;
  bool packs_ = true;  // keys and values into panels
  int64_t score_stride_ = 0, value_stride_ = 0, strip_ = 0, parts_ = 1, floats_ = 0, thread_bytes_ = 0;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  const DType type = b.outputs[0].type;
  if (!float_kind(type)) return refuse(Reason::wrong_type, "its type is {}; expected f32, f16 or bf16", name(type));
  for (size_t i = 0; i < 3; ++i)
    if (b.inputs[i].type != type) return refuse(Reason::wrong_type, "q, k, v and y differ in type");
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.layout != Layout::plain) return refuse(Reason::wrong_layout, "a tensor is not plain");
  for (const BoundTensor* t : {&b.inputs[0], &b.inputs[1], &b.inputs[2], &b.outputs[0]})
    if (const Shape s = memory_strides(*t); s[3] != 1 && t->shape[3] > 1)
      return refuse(Reason::wrong_layout, "the elements of a row are apart");
  return std::nullopt;
}

}  // namespace

void offer_attention_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.outputs[0].type == DType::f64) return offer_attention_products(b, machine, offer);
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  const AttentionShape s(*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape);
  const double flops =
      2.0 * static_cast<double>(s.batch * s.heads * s.queries * s.keys) * static_cast<double>(s.depth + s.value_depth);
  offer.candidates.push_back(
      {"cpu", "", 5 + flops / (5e4 * igemm::rate()) / machine.threads, [b, node = *b.node, threads = machine.threads] {
         BoundNode bound = b;
         bound.node = &node;
         return std::make_unique<AttentionKernel>(bound, threads);
       }});
}

}  // namespace smelt::ops
