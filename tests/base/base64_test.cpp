#include "base/base64.h"

#include <gtest/gtest.h>

namespace smelt {
namespace {

TEST(Base64, writes_the_rfcs_examples) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, reads_every_byte_back_at_every_length) {
  std::string bytes;
  for (int i = 0; i < 700; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes) << i;
    bytes += static_cast<char>(i * 37);
  }
}

TEST(Base64, refuses_what_it_does_not_write) {
  for (const char* text : {"Zg", "Zg=", "Zg==Zg==", "Z===", "====", "Zm9v\n", "Zm9-", "Zh==", "Zm9=", "=Zm9"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace smelt
