// A product of 8-bit integers with a constant right operand, exact: igemm's integer tile multiplies pairs of 16-bit integers, to
// which each task widens its rows of a. Without AVX-512 it multiplies bytes where nearly all of b's can be added so (ByteQuads).
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>

#include "base/number.h"
#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/igemm/byte_quads.h"
#include "ops/cpu/igemm/integer.h"
#include "ops/cpu/igemm/tiles.h"
#include "ops/cpu/integer/widened_rows.h"
#include "ops/matmul/cpu_indirect_rows.h"
#include "ops/matmul/int8_problem.h"
#include "ops/matmul/int8_sums.h"
#include "ops/matmul/offer.h"

namespace smelt::ops {
namespace matmul {
namespace {

/// Whether b is kept as bytes.
bool keeps_bytes(const Product& q) {
  const bool few_rows = q.problem.m <= igemm::fewest_rows_to_widen;
  return q.bound.inputs[q.b].type == DType::i8 && q.quantization().is_symmetric() && !(few_rows && igemm::has_wide_tiles());
}

/// Of the weights that kernels share.
Tensor packed(const Product& q, Key form, const std::function<Tensor()>& make) {
  form.field(q.b_row).field(q.b_column);
  if (!q.quantization().is_symmetric()) form.field(Shape(q.quantization().b_zeros.begin(), q.quantization().b_zeros.end()));
  return q.bound.weights ? q.bound.weights->packed(q.bound.inputs[q.b].constant, form.text(), make) : make();
}

/// b as quads, where it fits them and this CPU has no tiles of AVX-512, which take more pairs at a time.
std::optional<igemm::ByteQuads> quads_of(const Product& q) {
  if (igemm::has_wide_tiles()) return std::nullopt;
  Tensor form = packed(q, Key("quads"), [&] {
    return igemm::ByteQuads::pack(q.problem.k, q.problem.n, [&](int64_t k, int64_t n, int64_t count, int16_t* to) {
      for (int64_t i = 0; i < count; ++i) to[i] = int8_weight(q, k, n + i);
    });
  });
  return igemm::ByteQuads::fits(form) ? std::optional<igemm::ByteQuads>(std::in_place, std::move(form)) : std::nullopt;
}

class Int8Indirect final : public Kernel {
 public:
  Int8Indirect(const Product& q, int threads)
      : threads_(threads),
        quads_(quads_of(q)),
        a_(q.bound.inputs[q.a]),
        a_input_(q.a),
        zero_input_(q.quantization().a_zero_input),
        zero_(q.quantization().a_zero),
        start_(q.quantization().bias),
        k_(q.problem.k),
        elements_(divide_up(k_, quads_ ? 4 : 2)),
        parts_(igemm::split(std::vector<int64_t>{elements_})),
        rows_(tall_rows(q), k_, a_.type == DType::i8, parts_, quads_.has_value()),
        schedule_(igemm::schedule(q.problem.m, q.problem.n, parts_, true, threads)) {
    schedule_.row_bytes = rows_.copy_bytes(schedule_.block_tiles * igemm::tile_rows);
    start_.resize(static_cast<size_t>(schedule_.n + igemm::tile_columns), 0);
    if (q.node->program) epilogue_.emplace(q.bound, q.operands, q.bound.outputs[0].shape.size() - 1, q.quantization().scales);
    if (quads_) return;
    schedule_.narrow = keeps_bytes(q);
    packed_ = packed(q, Key("pairs").flag("-narrow", schedule_.narrow), [&] { return pack(q); });
  }

  int64_t workspace() const override {
    return aligned(igemm::workspace(schedule_)) + threads_ * (epilogue_ ? epilogue_->scratch() : 0);
  }

  bool in_place(size_t i) const override { return epilogue_ && epilogue_->in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    rows_.set(b.inputs[a_input_], zero_point(b));
    igemm::Run r;
    r.integer = true;
    r.rows = &rows_;
    r.b = quads_ ? quads_->quads() : static_cast<const float*>(packed_.raw());
    r.bias = reinterpret_cast<const float*>(quads_ ? less_zero(zero_point(b)) : start_.data());
    r.quads = quads_ ? &*quads_ : nullptr;
    r.workspace = memory;
    memory += aligned(igemm::workspace(schedule_));
    if (epilogue_) {
      const CpuEpilogue::Runner finish(*epilogue_, b, memory);
      r.finish = &finish;
      igemm::run(schedule_, r);
    } else {
      const StoreSums finish(static_cast<int32_t*>(b.outputs[0]), schedule_.n);
      r.finish = &finish;
      igemm::run(schedule_, r);
    }
  }

 private:
  int32_t zero_point(const Buffers& b) const {
    if (!zero_input_) return zero_;
    const void* z = b.inputs[*zero_input_];
    return a_.type == DType::u8 ? *static_cast<const uint8_t*>(z) : *static_cast<const int8_t*>(z);
  }

  /// What sums of quads begin with: their bytes still have the zero point.
  const int32_t* less_zero(int32_t zero) {
    const auto less = static_cast<uint32_t>(zero + (a_.type == DType::i8 ? 128 : 0));
    const std::span<const int32_t> columns = quads_->column_sums();
    less_zero_ = start_;
    for (size_t n = 0; n < columns.size(); ++n)
      less_zero_[n] = static_cast<int32_t>(static_cast<uint32_t>(start_[n]) - less * static_cast<uint32_t>(columns[n]));
    return less_zero_.data();
  }

  Tensor pack(const Product& q) const {
    return igemm::packed_pairs(schedule_.narrow, igemm::packed_floats(elements_, schedule_.n), [&](auto* to) {
      igemm::pack_pairs(to, elements_, schedule_.n, [&](int64_t pair, int64_t n, int half) -> int16_t {
        const int64_t k = 2 * pair + half;
        return k < k_ ? int8_weight(q, k, n) : int16_t{0};
      });
    });
  }

  int threads_;
  std::optional<igemm::ByteQuads> quads_;
  BoundTensor a_;
  size_t a_input_;
  std::optional<size_t> zero_input_;
  int32_t zero_;
  std::vector<int32_t> start_, less_zero_;
  int64_t k_, elements_;  // elements: pairs or quads
  std::vector<igemm::Part> parts_;
  integer::WidenedRows rows_;
  igemm::Schedule schedule_;
  std::optional<CpuEpilogue> epilogue_;
  Tensor packed_;
};

}  // namespace

void offer_int8_indirect(const Product& q, int threads, Offer& offer) {
  if (const auto why = rejects_int8(q, true)) return offer.refuse("avx2", *why);
  const Problem& p = q.problem;
  // One Zen 3 core at 3.2 GHz, measured; B is 1 or 2 bytes an element, from memory where few rows reuse it.
  constexpr double flops_per_us = 150e3, bytes_per_us = 12e3, widened_per_us = 1e4;
  const double widened = static_cast<double>(p.batch() * p.m) * static_cast<double>(p.k) / widened_per_us,
               tiles = static_cast<double>(p.batch()) * igemm::tiles_us(p.m, p.n);
  const double compute = p.flops() * igemm::padding(p.n) / flops_per_us + widened + tiles,
               memory = (keeps_bytes(q) ? 1.0 : 2.0) * static_cast<double>(p.n) * static_cast<double>(p.k) / bytes_per_us;
  offer.candidates.push_back({"avx2", "pairs", 3 + std::max(compute, memory) / threads,
                              [q, threads] { return std::make_unique<Int8Indirect>(q, threads); }});
}

}  // namespace matmul

}  // namespace smelt::ops
