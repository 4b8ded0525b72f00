#include "base/value_of.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace smelt {
namespace {

TEST(ValueOf, gives_the_value_itself) {
  std::optional<std::string> o = "conv";
  value_of(o, "the name") += "1";
  EXPECT_EQ(*o, "conv1");
  const auto& constant = o;
  EXPECT_EQ(&value_of(constant, "the name"), &*o);
}

TEST(ValueOf, moves_out_of_a_temporary) { EXPECT_EQ(*value_of(std::optional(std::make_unique<int>(7)), "the number"), 7); }

TEST(ValueOf, says_what_is_missing) {
  const std::optional<int> none;
  try {
    value_of(none, "the number of columns");
    FAIL() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the number of columns is missing");
  }
}

}  // namespace
}  // namespace smelt
