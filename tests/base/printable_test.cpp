#include "base/printable.h"

#include <gtest/gtest.h>

#include "smelt/error.h"

namespace smelt {
namespace {

TEST(Printable, escapes_what_a_terminal_obeys) {
  EXPECT_EQ(printable("\x1b[2Jconv\r\x7f\b"), "\\x1b[2Jconv\\x0d\\x7f\\x08");
  EXPECT_EQ(printable("a\xc2\x9b[2J"), "a\\x9b[2J");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\u202eb\u2067\u202d"), "a\\u202eb\\u2067\\u202d") << "they turn the line around";
  EXPECT_EQ(printable("\u2029\u202f\u2065"), "\u2029\u202f\u2065");
}

TEST(Printable, leaves_text_lines_and_tabs_alone) {
  for (const char* text : {"", "conv 1/weight", "µs → größer\n\tnext", "\xc2\xa0", "\xf0\x9f\x98\x80"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, escapes_bytes_that_are_no_text) {
  EXPECT_EQ(printable("\xff\xfe-\xc2"), "\\xff\\xfe-\\xc2");
  EXPECT_EQ(
      printable(
          "\xed\xa0\x80 \xe0\x80\xaf \xf4\x90\x80\x80 \xe2\x86"),  // a surrogate, a slash in three bytes, too large, cut off
      "\\xed\\xa0\\x80 \\xe0\\x80\\xaf \\xf4\\x90\\x80\\x80 \\xe2\\x86");
}

TEST(Error, shows_no_control_characters_of_names) {
  const Error e("node '\x1b[31mx'", "see '\x1b'");
  EXPECT_STREQ(e.at("\x07.onnx").what(), "\\x07.onnx: node '\\x1b[31mx'");
  EXPECT_EQ(e.next(), "see '\\x1b'");
}

}  // namespace
}  // namespace smelt
