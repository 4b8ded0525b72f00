// Extents of a grid fit, or are refused; a cast would launch another number of blocks.
#include "device/cuda/grid.h"

#include <gtest/gtest.h>

#include "device/cuda/module.h"

namespace smelt::device::cuda {
namespace {

TEST(Grid, takes_what_fits) {
  constexpr int64_t most = (int64_t{1} << 31) - 1;
  const Grid grid(most, 65535, 0);
  EXPECT_EQ(grid[0], 2147483647u);
  EXPECT_EQ(grid[1], 65535u);
  EXPECT_EQ(grid[2], 0u);
  const LaunchShape shape{.grid = {7}};
  EXPECT_EQ(shape.grid[0] * shape.grid[1] * shape.grid[2], 7u);
}

TEST(Grid, refuses_more_and_says_how_many_there_are) {
  EXPECT_THROW(Grid(int64_t{1} << 31), Error);
  EXPECT_THROW(Grid((int64_t{1} << 32) + 1), Error) << "1 by a cast";
  EXPECT_THROW(Grid(-1), Error);
  EXPECT_THROW(Grid(1, 65536), Error);
  EXPECT_THROW(Grid(1, 1, (int64_t{1} << 32) + 1), Error);
  try {
    Grid(1, 65536);
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("65536"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace smelt::device::cuda
