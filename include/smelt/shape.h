// Concrete shapes (of a bound tensor) and symbolic shapes (what a graph knows before it is bound).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smelt/export.h"

namespace smelt {

using Shape = std::vector<int64_t>;

/// Product of the extents; 1 for a scalar. Throws when an extent is negative or the product overflows int64_t.
SMELT_API int64_t elements(const Shape& s);
/// Row-major strides in elements.
SMELT_API Shape strides(const Shape& s);
/// "[1, 3, 224, 224]"
SMELT_API std::string to_string(const Shape& s);
/// "1x3x224x224", the spelling of problems and --shapes; "scalar" for rank 0.
SMELT_API std::string to_text(const Shape& s);
/// The shape that two shapes broadcast to, by NumPy's rules; nothing when they do not broadcast.
SMELT_API std::optional<Shape> broadcast(const Shape& a, const Shape& b);
/// Maps an axis in [-rank, rank) to [0, rank). Throws for an axis outside of that range.
SMELT_API int64_t normalize_axis(int64_t axis, int64_t rank);

/// An extent of a graph value: a number, a named symbol ("batch"), or unknown (neither).
struct Dim {
  int64_t value = -1;
  std::string symbol;
  Dim() = default;
  Dim(int64_t v) : value(v) {}
  explicit Dim(std::string s) : symbol(std::move(s)) {}
  bool known() const { return value >= 0; }
  bool operator==(const Dim&) const = default;
};

using SymShape = std::vector<Dim>;

/// True when every extent is a number.
SMELT_API bool is_static(const SymShape& s);
/// The numbers of a static shape; throws when an extent is not known.
SMELT_API Shape to_shape(const SymShape& s);
SMELT_API SymShape to_sym(const Shape& s);
/// "[batch, 3, ?, 224]"
SMELT_API std::string to_string(const SymShape& s);

}  // namespace smelt
