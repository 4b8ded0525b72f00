// What --tactics asked of a GPU by name.
#pragma once

namespace smelt::ops {

/// Kept in Gpu::caches, false where nobody wrote it.
struct AskedTactics {
  bool cute = false;  // convolutions written with CuTe are candidates, which compile for seconds
};

}  // namespace smelt::ops
