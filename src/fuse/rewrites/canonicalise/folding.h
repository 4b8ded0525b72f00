// What constants that are computed ahead come to take.
#pragma once

#include <cstdint>

namespace smelt::fuse {

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
