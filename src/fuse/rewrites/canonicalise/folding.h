// What constants that are computed ahead come to take.
#pragma once

#include <cstdint>

namespace smelt::fuse {

inline constexpr int64_t folded_always =
    8 << 20;  // bytes of a result that may be larger than the inputs: a 1024 x 2048 mask in f32

/// One run of the rewrites over a graph and its bodies: how much the results that fold_constants computed take beyond the inputs that
/// went for them. Outside of all scopes nothing is counted.
class FoldingScope {
 public:
  FoldingScope();
  ~FoldingScope();
  FoldingScope(const FoldingScope&) = delete;
  int64_t bytes = 0;

 private:
  FoldingScope* outer_;
};

}  // namespace smelt::fuse
