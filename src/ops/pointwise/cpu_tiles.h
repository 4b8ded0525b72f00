// How a sweep over strided views is cut where its runs are short.
#pragma once

#include <vector>

#include "expr/cpu.h"
#include "smelt/shape.h"

namespace smelt::ops {

/// Some entries of one axis with all of the axes inside it, which lie one behind the other in the output's memory. Operands that lie in
/// another way are gathered for a tile. The axes around are loops, in such an order that what is gathered serves as many tiles as it can.
class Tiles {
 public:
  Tiles() = default;
  /// Views as `merged` gives them: inputs, of so many bytes an element, then outputs. At most `most` elements to a tile.
  Tiles(const Shape& extents, const std::vector<Shape>& strides, std::vector<int> input_bytes, int64_t most);

  int64_t count() const;
  /// Of the largest one.
  int64_t elements() const { return entries_ * inner_; }

  enum class Lies : uint8_t { as_the_output, one_element, apart };
  /// How an input's elements of a tile lie.
  Lies lies(size_t input) const { return lies_[input]; }
  /// How many tiles in turn have the same elements of an input.
  int64_t serves(size_t input) const;

  /// A tile on the way through all of them: where each view begins, in elements.
  class Place {
   public:
    /// Bytes of memory that one needs.
    static int64_t bytes(const Tiles& t) { return static_cast<int64_t>((t.steps_.size() + t.loops_.size()) * sizeof(int64_t)); }
    Place(const Tiles& t, int64_t tile, void* memory);
    void next();
    int64_t offset(size_t view) const { return offsets_[view]; }
    int64_t elements() const { return entries() * tiles_.inner_; }
    /// Entries of its first axis: the last tile along it may have fewer.
    int64_t entries() const {
      return at_[tiles_.split_] + 1 < tiles_.loops_[tiles_.split_] ? tiles_.entries_ : tiles_.last_entries_;
    }

   private:
    const Tiles& tiles_;
    int64_t *offsets_, *at_;  // by view, by loop
  };

  /// An input's elements of a tile with so many entries, dense. `from`: the tile's first one.
  void gather(size_t input, int64_t entries, const void* from, void* to) const {
    gather(input, 0, entries, static_cast<const char*>(from), static_cast<char*>(to));
  }

 private:
  void gather(size_t input, size_t axis, int64_t entries, const char* from, char* to) const;
  void order_loops();

  std::vector<int> bytes_;
  Shape inside_;                       // the tile's axes; of the first one all entries
  std::vector<Shape> inside_strides_;  // of each input along them
  int64_t inner_ = 1, entries_ = 1, last_entries_ = 1;
  std::vector<Lies> lies_;
  Shape loops_;               // the last one is the innermost
  std::vector<Shape> steps_;  // of each view along them
  size_t split_ = 0;          // the loop over the tiles of one axis
};

}  // namespace smelt::ops
