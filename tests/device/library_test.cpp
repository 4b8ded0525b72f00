#include "device/cuda/library.h"

#include <gtest/gtest.h>

namespace smelt::device::cuda {
namespace {

using Version = const char* (*)();

TEST(Library, own_instance_has_its_own_variables_and_does_the_same) {
  const Library shared("zlib", {"libz.so.1"}, "this test needs it");
  if (!shared.available()) GTEST_SKIP() << shared.missing();
  const Library own = shared.own_instance(), another = shared.own_instance();
  const auto of = [](const Library& l) { return reinterpret_cast<Version>(l.find("zlibVersion")); };
  ASSERT_NE(of(own), nullptr);
  EXPECT_NE(of(own), of(shared));
  EXPECT_NE(of(own), of(another));
  EXPECT_STREQ(of(own)(), of(shared)());
  EXPECT_EQ(own.path(), shared.path());
}

TEST(Library, own_instance_of_a_missing_library_is_missing) {
  const Library none("none", {"libsmelt_has_no_such.so.1"}, "nothing is lost");
  EXPECT_FALSE(none.own_instance().available());
  EXPECT_EQ(none.own_instance().missing(), none.missing());
}

}  // namespace
}  // namespace smelt::device::cuda
