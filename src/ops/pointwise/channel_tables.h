// Programs of bytes and of constants that are the same along a run, such as a channel's scale and shift between QuantizeLinear and
// DequantizeLinear: a table of 256 bytes for each place of the axes that the constants differ along.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "expr/byte_tables.h"
#include "ops/pointwise/problem.h"

namespace smelt::ops {

/// What an input goes through before a program reads it.
struct InputTables {
  size_t input = 0;
  std::shared_ptr<const std::vector<uint8_t>> bytes;  // the tables, one behind the other
};

class ChannelTables {
 public:
  /// Nothing where no such constant is known, where runs are short, or where a table is for few elements.
  static std::optional<ChannelTables> match(const PointwiseProblem& p);

  /// What is left to compute: its program reads what comes out of tables. Behind the outputs' strides those of the tables, by index of a
  /// table.
  const PointwiseProblem& rest() const { return rest_; }
  std::vector<InputTables> make() const;

 private:
  struct Part {
    expr::BytePart cut;
    Shape steps;  // of a table, along the problem's axes
    int64_t count = 1;
  };
  void cut(const PointwiseProblem& p);

  std::vector<Part> parts_;
  PointwiseProblem rest_;
  Shape shape_;
  std::vector<Tensor> constants_;
  std::vector<Shape> strides_;
};

}  // namespace smelt::ops
