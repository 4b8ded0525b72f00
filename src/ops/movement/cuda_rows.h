// Rows of elements moved to where a map says, on a GPU: the one kernel behind Gather, Pad, nearest Resize, Trilu, OneHot and what
// else only moves (src/kernels/movement/rows.cuh).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/cuda/launches.h"

namespace smelt::ops {

/// One of rows.cuh's maps with its members' values, in their order.
class RowMap {
 public:
  explicit RowMap(std::string type) : type_(std::move(type)) {}

  RowMap& number(int64_t v) {
    return add("i64", [v](Launch& l) { l.value(v); });
  }
  RowMap& flag(bool v) {
    return add("bool", [v](Launch& l) { l.value(v); });
  }
  RowMap& divider(int64_t d);
  RowMap& pointer(const std::string& type, const BufferRef& p) {
    return add("const " + type + "*", [p](Launch& l) { l.at(p); });
  }
  RowMap& null(const std::string& type);
  RowMap& walk(const Views& views);
  /// A functor of the type made of the parameters' names, which `give` gives.
  RowMap& nested(const std::string& type, const std::string& parameters, const std::string& members,
                 std::function<void(Launch&)> give);
  /// A structure of the type, laid out as the kernel has it.
  RowMap& structure(const std::string& type, std::vector<std::byte> bytes) {
    return add("const " + type, [bytes = std::move(bytes)](Launch& l) { l.bytes(bytes); });
  }

 private:
  friend struct RowMove;
  RowMap& add(const std::string& type, std::function<void(Launch&)> give);
  std::string type_;
  std::vector<std::string> parameters_, members_;
  std::vector<std::function<void(Launch&)>> give_;
};

struct RowMove {
  BufferRef from{BufferRef::input, 0, 0}, to{BufferRef::output, 0, 0};
  int64_t rows = 0, width = 1;  // elements a row
  int64_t bytes = 4;            // an element
  int64_t vec = 1;              // elements that a thread moves at once
  std::vector<std::byte> fill;  // an element; empty: zero
  RowMap map{"Filled"};

  /// Sets vec: the widest access of the memory's alignment, where all rows begin at multiples of `unit` elements.
  void widen(int64_t alignment, int64_t unit);
  /// More threads than one launch has.
  bool too_large() const { return rows * ((width + vec - 1) / vec) >= int64_t{1} << 31; }
  /// Adds its kernel, called `name`, to the plan's source, and its launch.
  void add_to(LaunchPlan& plan, const std::string& name) const;
};

/// The bytes of a tensor of one element.
std::vector<std::byte> element_of(const Tensor& t);

/// #include of the maps, which a plan's source begins with.
extern const char* const rows_source;

/// Adds the one candidate of a node that is this move, after `before` (may be null) has added its own steps.
void offer_row_move(const RowMove& move, const std::string& name, const Gpu& gpu, Offer& offer,
                    const std::function<void(LaunchPlan&)>& before = {});

/// An element's CUDA type by its size: "u32". Empty for sizes that are not 1, 2, 4 or 8.
std::string moved_type(int64_t bytes);

}  // namespace smelt::ops
