// What the kernels share whose right operand is packed in the run, of floats and of 8-bit integers: a batch of products, one after the
// other or each thread its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/transpose_block.h"
#include "ops/matmul/problem.h"

namespace smelt::ops::matmul {

/// The products of a batch. Where there are as many as threads each thread takes whole ones; else all threads share one.
class Batches {
 public:
  Batches(const Product& p, int threads) : threads_(threads) {
    const bool tall = p.problem.b_batch.empty();  // the batch, if any, is part of M
    count_ = tall ? 1 : elements(p.batch);
    each_ = count_ >= threads && count_ > 1;
    a_ = igemm::RowMap(tall ? Shape{1} : p.batch, tall ? Shape{0} : p.a_steps);
    b_ = igemm::RowMap(tall ? Shape{1} : p.batch, tall ? Shape{0} : p.b_steps);
  }

  /// Threads of one product.
  int share() const { return each_ ? 1 : threads_; }
  /// Products at a time, each with memory of its own.
  int workers() const { return each_ ? threads_ : 1; }
  /// Elements from the operands' beginning to those of product `i`.
  int64_t a(int64_t i) const { return a_.offset(i); }
  int64_t b(int64_t i) const { return b_.offset(i); }

  /// one(i, worker, thread) for every product; `thread`: the one that it runs on, -1 where all share it.
  template <class One> void run(const One& one) const {
    if (each_)
      parallel_dynamic(threads_, count_, [&](int64_t i, int thread) { one(i, thread, thread); });
    else
      for (int64_t i = 0; i < count_; ++i) one(i, 0, -1);
  }

 private:
  int threads_;
  int64_t count_ = 1;
  bool each_ = false;
  igemm::RowMap a_, b_;
};

/// Sums of one product's rows and of some of its columns, as those of the whole output; `thread` as Batches::run says it.
class BatchRows final : public igemm::Finish {
 public:
  BatchRows(const igemm::Finish& to, int64_t first_row, int64_t first_column, int thread)
      : to_(to), row_(first_row), column_(first_column), thread_(thread) {}
  void take(const igemm::Sums& sums) const override {
    igemm::Sums s = sums;
    s.row += row_;
    s.column += column_;
    if (thread_ >= 0) s.thread = thread_;
    to_.take(s);
  }

 private:
  const igemm::Finish& to_;
  int64_t row_, column_;
  int thread_;
};

/// Columns that are packed at a time, of which one takes `bytes` of panels: so many that threads share them out, and no more than
/// stay in their L2 caches until the rows have gone by. What is packed once is read once where the rows are few.
inline int64_t columns_at_once(int64_t n, int64_t bytes, int threads) {
  constexpr int64_t most_bytes = 1 << 18, most_panels = 16;
  const int64_t fitting = most_bytes / std::max<int64_t>(bytes, 1), least = 4 * most_panels * igemm::tile_columns;
  const int64_t wanted = threads * std::max(fitting, least) / igemm::tile_columns * igemm::tile_columns;
  return std::min(n, wanted);
}

/// A transposed left operand as m dense rows of k elements, by `threads` of them: by blocks where a column's elements are adjacent.
template <class T> void pack_left(T* to, const T* from, int64_t m, int64_t k, int64_t row, int64_t column, int threads) {
  const auto one_by_one = [&](int64_t first, int64_t last, int64_t begin, int64_t end) {
    for (int64_t r = first; r < last; ++r)
      for (int64_t i = begin; i < end; ++i) to[r * k + i] = from[r * row + i * column];
  };
  parallel(threads, m, block_side, [&](int64_t begin, int64_t end, int) {
    if (row != 1) return one_by_one(begin, end, 0, k);
    int64_t r = begin;
    for (; r + block_side <= end; r += block_side) {
      int64_t i = 0;
      for (; i + block_side <= k; i += block_side) transpose_block(to + r * k + i, k, from + r + i * column, column);
      one_by_one(r, r + block_side, i, k);
    }
    one_by_one(r, end, 0, k);
  });
}

}  // namespace smelt::ops::matmul
