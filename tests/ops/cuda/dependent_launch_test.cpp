// What is put into the source of every kernel on a GPU.
#include <gtest/gtest.h>

#include "ops/cuda/dependent_launch.h"

namespace smelt::ops {
namespace {

TEST(DependentLaunch, every_kernel_begins_with_a_wait) {
  const std::string code =
      "struct Program { int x; };\n"
      "extern \"C\" __global__ void __launch_bounds__(Tile::threads(2), 1) first(const float* x, Pair<(3)> p) {\n  body();\n}\n"
      "__device__ void helper() { }\n"
      "extern \"C\" __global__ void second(int n) {}\n";
  EXPECT_EQ(add_dependency_wait(code),
            "#include \"common/dependent_launch.cuh\"\n"
            "struct Program { int x; };\n"
            "extern \"C\" __global__ void __launch_bounds__(Tile::threads(2), 1) first(const float* x, Pair<(3)> p) {\n"
            "  wait_for_kernels_before();\n  body();\n}\n"
            "__device__ void helper() { }\n"
            "extern \"C\" __global__ void second(int n) {\n  wait_for_kernels_before();}\n");
  EXPECT_EQ(add_dependency_wait("int x;"), "#include \"common/dependent_launch.cuh\"\nint x;") << "nothing to wait in";
}

TEST(DependentLaunch, kernels_that_wait_themselves_are_left_as_they_are) {
  const std::string code = std::string(waits_itself) + "extern \"C\" __global__ void late(int n) {}\n";
  EXPECT_EQ(add_dependency_wait(code), code);
}

}  // namespace
}  // namespace smelt::ops
