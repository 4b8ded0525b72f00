// A program over whole operands, on several threads: the loops around expr::Evaluator.
#pragma once

#include <optional>
#include <vector>

#include "base/refusal.h"
#include "base/value_of.h"
#include "expr/cpu.h"
#include "ops/cpu/integer/row_program.h"
#include "ops/pointwise/channel_tables.h"
#include "ops/pointwise/cpu_tiles.h"
#include "smelt/shape.h"

namespace smelt::ops {

/// Operands and outputs as strided views of one shape. Axes are ordered by the outputs' memory and merged where every view
/// allows, so that the evaluator's runs are as long as they can be. Where they stay short, operands are gathered for tiles of many runs.
class Sweep {
 public:
  /// `strides[k]`: elements from one index to the next along each axis of `shape`, inputs first, then outputs; 0 where an
  /// operand repeats. The outputs must be equally strided and have no stride of 0 but along axes of 1. Behind the outputs' strides those of
  /// `tables` (ChannelTables), which are the same along a run.
  Sweep(const expr::Program& p, const Shape& shape, const std::vector<Shape>& strides, int threads,
        std::vector<InputTables> tables = {});

  /// Why not: nothing when these outputs can be written.
  static std::optional<Refusal> rejects(const expr::Program& p, const Shape& shape, std::span<const Shape> output_strides);

  int64_t workspace() const { return threads_ * thread_scratch_; }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) const;
  /// Whether every byte but 0 is true in input i, of bools: where it meets logical functions alone.
  bool takes_any_boolean(size_t i) const { return any_booleans_[i]; }
  /// A guess for a cost model, in microseconds, from the bytes it moves and the loops it runs.
  double estimate_us() const;

 private:
  const expr::Evaluator& evaluator() const { return value_of(evaluator_, "the evaluator of a sweep"); }
  void run_part(int64_t begin, int64_t end, std::span<const void* const> inputs, std::span<void* const> outputs,
                char* scratch) const;
  void run_tiles(int64_t begin, int64_t end, std::span<const void* const> inputs, std::span<void* const> outputs,
                 char* scratch) const;
  void compute(int64_t n, const expr::Operand* operands, std::span<void* const> results, char* own) const;
  void look_up(int64_t n, expr::Operand* operands, std::span<void*> results, const int64_t* at, char* own) const;
  bool tiles_pay(bool rows_apart) const;
  /// Whether an operand may be one element for a whole run.
  bool takes_one() const { return rows_ && rows_->takes_repeated(); }
  /// Whether an input's elements of a tile are gathered: they lie in another way than the output's.
  bool is_gathered(size_t input) const;
  void locate(int64_t run, int64_t* offsets) const;

  Shape extents_;                   // merged; the last is a run's length
  std::vector<Shape> strides_;      // inputs, then outputs, then tables
  std::vector<int> bytes_;          // of an element of each
  std::vector<bool> any_booleans_;  // by input
  size_t inputs_ = 0;
  int64_t count_ = 0;
  std::vector<InputTables> tables_;
  bool only_looks_up_ = false;  // an element is what comes out of the one table
  std::optional<Tiles> tiles_;
  std::optional<integer::RowProgram> rows_;  // does a run in one loop, instead of the evaluator
  std::optional<expr::Evaluator> evaluator_;
  int64_t thread_scratch_ = 0;
  int threads_ = 1;
};

}  // namespace smelt::ops
