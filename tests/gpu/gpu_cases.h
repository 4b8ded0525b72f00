// Where ONNX's cases lie for the tests that need a GPU, and how they are shared out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "conformance/cases.h"
#include "support/paths.h"

namespace smelt::conformance {

/// In how many slices that may run side by side.
constexpr int gpu_slices = 12;

/// Beside the program in conformance/, or in the build folder (test_conformance writes them).
inline std::filesystem::path cases_for_gpu() {
  const std::filesystem::path here = "conformance", built = build_dir() / "conformance";
  return std::filesystem::exists(here / "node") ? here : built;
}

/// A case's tolerance where a GPU computes it: sums in another order, functions to two units in the last place.
inline Tolerance on_gpu(Tolerance t, DType type) {
  if (type == DType::f16) t.absolute = std::max(t.absolute, 1e-3), t.relative = std::max(t.relative, 2e-3);
  if (type == DType::f32) t.absolute = std::max(t.absolute, 1e-6);
  return t;
}

}  // namespace smelt::conformance
