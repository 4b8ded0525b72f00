// Extents of a grid fit, or are refused; a cast would launch another number of blocks.
#include "device/cuda/grid.h"

#include <gtest/gtest.h>

namespace smelt::device::cuda {
namespace {

TEST(Grid, takes_what_fits) {
  constexpr int64_t most = (int64_t{1} << 31) - 1;
  EXPECT_EQ(grid_x(0), 0u);
  EXPECT_EQ(grid_x(most), 2147483647u);
  EXPECT_EQ(grid_yz(65535), 65535u);
}

TEST(Grid, refuses_more_and_says_how_many_there_are) {
  EXPECT_THROW(grid_x(int64_t{1} << 31), Error);
  EXPECT_THROW(grid_x((int64_t{1} << 32) + 1), Error) << "1 by a cast";
  EXPECT_THROW(grid_x(-1), Error);
  EXPECT_THROW(grid_yz(65536), Error);
  EXPECT_THROW(grid_yz((int64_t{1} << 32) + 1), Error);
  try {
    grid_yz(65536);
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("65536"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace smelt::device::cuda
