#include "base/number.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/errors.h"

namespace smelt {
namespace {

TEST(CheckedProduct, is_the_product_or_an_error_with_its_factors) {
  EXPECT_EQ(checked_product(3, int64_t{5}, -7), -105);
  EXPECT_EQ(checked_product(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(checked_product(int64_t{1} << 62, 0, 9), 0);
  EXPECT_EQ(error_of([] { checked_product(int64_t{1} << 32, int64_t{1} << 32, 0); }),
            "4294967296 x 4294967296 x 0 is more than can be counted");
}

TEST(CheckedSum, is_the_sum_or_an_error_with_its_terms) {
  EXPECT_EQ(checked_sum(INT64_MAX, -1), INT64_MAX - 1);
  EXPECT_EQ(error_of([] { checked_sum(INT64_MAX, 1); }), "9223372036854775807 + 1 is more than can be counted");
}

TEST(Truncated, takes_the_nearest_end_beyond_the_range) {
  EXPECT_EQ(truncated(-2.9), -2);
  EXPECT_EQ(truncated(1e300), INT64_MAX);
  EXPECT_EQ(truncated(-INFINITY), INT64_MIN);
  EXPECT_EQ(truncated(NAN), INT64_MIN);
  EXPECT_EQ(truncated(9223372036854775807.0), INT64_MAX);
  EXPECT_EQ(truncated<uint64_t>(18446744073709549568.0), 18446744073709549568u);
  EXPECT_EQ(truncated<uint64_t>(-0.5), 0u);
  EXPECT_EQ(truncated<int8_t>(127.9), 127);
  EXPECT_EQ(truncated<uint8_t>(-3), 0);
}

}  // namespace
}  // namespace smelt
