#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

using Words = std::vector<std::string>;

Tensor words(const Words& w) { return Tensor::of_strings({static_cast<int64_t>(w.size())}, w); }

Tensor tokens(const Words& texts, Attributes attrs) {
  attrs.try_emplace("pad_value", std::string("#"));
  return run("com.microsoft:Tokenizer", {words(texts)}, std::move(attrs));
}

void expect_tokens(const Tensor& y, const Shape& shape, const Words& expected) {
  EXPECT_EQ(y.shape(), shape);
  EXPECT_EQ(y.strings(), expected);
}

// What is expected is what ONNX Runtime 1.31 gives.
TEST(Tokenizer, finds_what_an_expression_matches) {
  expect_tokens(tokens({"hello big world", "a", ""}, {{"tokenexp", std::string("[a-zA-Z0-9_]+")}}), {3, 3},
                {"hello", "big", "world", "a", "#", "#", "#", "#", "#"});
  expect_tokens(tokens({"abcd"}, {{"tokenexp", std::string("a|ab|abc")}}), {1, 1}, {"abc"});
  expect_tokens(tokens({"xxabxxb",
                        "\xC3\xA9"
                        "a\xC3\xA9"},
                       {{"tokenexp", std::string("a*")}}),
                {2, 1}, {"a", "a"});
  expect_tokens(tokens({"ab a abc"}, {{"tokenexp", std::string("\\b\\w\\w+\\b")}}), {1, 2}, {"ab", "abc"});
}

TEST(Tokenizer, separates_by_one_expression_after_the_other) {
  expect_tokens(
      tokens({"a.b,c d", "...", ",,a", "a,", "", "x"}, {{"separators", Words{" ", "[.]", ","}}}), {6, 4},
      {"a", "b", "c", "d", "#", "#", "#", "#", "a", "#", "#", "#", "a", "#", "#", "#", "#", "#", "#", "#", "x", "#", "#", "#"});
  expect_tokens(tokens({"aaab", "aab", "abab"}, {{"separators", Words{"ab", "aa"}}}), {3, 1}, {"#", "a", "#"});
  expect_tokens(tokens({"aaab", "abab", "xaby"}, {{"separators", Words{"aa", "a", "ab"}}}), {3, 2},
                {"b", "#", "b", "b", "x", "by"});
  expect_tokens(tokens({"xay", "yx"}, {{"separators", Words{"a", "x$"}}}), {2, 1}, {"y", "y"});
  expect_tokens(tokens({"ababx"}, {{"separators", Words{"b"}}, {"tokenexp", std::string("x")}}), {1, 3}, {"a", "a", "x"});
}

TEST(Tokenizer, an_empty_match_drops_a_character) {
  expect_tokens(tokens({"a12b3c", "a b"}, {{"separators", Words{"[0-9]+", "\\s*"}}}), {2, 0}, {});
}

TEST(Tokenizer, marks_and_pads) {
  const std::string begin = "\x02", end = "\x03";
  expect_tokens(tokens({"a.b", "..."}, {{"separators", Words{"[.]"}}, {"mark", int64_t{1}}}), {2, 4},
                {begin, "a", "b", end, begin, end, "#", "#"});
  expect_tokens(tokens({"", ""}, {{"tokenexp", std::string("a")}, {"mark", int64_t{1}}}), {2, 0}, {});
}

TEST(Tokenizer, takes_characters_apart) {
  expect_tokens(tokens({"h\xC3\xA9", "", "a"}, {{"separators", Words{""}}}), {3, 2}, {"h", "\xC3\xA9", "#", "#", "a", "#"});
}

TEST(Tokenizer, a_dot_takes_line_ends_for_characters) {
  expect_tokens(tokens({"a\nb"}, {{"tokenexp", std::string(".")}}), {1, 3}, {"a", "\n", "b"});
  expect_tokens(tokens({"a\nb"}, {{"tokenexp", std::string(".+")}}), {1, 2}, {"a", "b"});
}

TEST(Tokenizer, leaves_out_short_tokens) {
  const Attributes two{{"mincharnum", int64_t{2}}, {"tokenexp", std::string("\\S+")}};
  expect_tokens(tokens({"\xC3\xA9\xC3\xA9 \xC3\xA9 a bb"}, two), {1, 2}, {"\xC3\xA9\xC3\xA9", "bb"});
  expect_tokens(tokens({"hello b a"}, {{"mincharnum", int64_t{2}}, {"separators", Words{" "}}}), {1, 1}, {"hello"});
}

TEST(Tokenizer, keeps_rows_of_two_axes) {
  const Tensor x = Tensor::of_strings({2, 1}, {"a b", "c"});
  const Tensor y = run("com.microsoft:Tokenizer", {x}, {{"separators", Words{" "}}, {"pad_value", std::string("#")}});
  expect_tokens(y, {2, 1, 2}, {"a", "b", "c", "#"});
  expect_error("expected [C] or [N, C]", [] {
    run("com.microsoft:Tokenizer", {Tensor::of_strings({1, 1, 1}, {"a"})}, {{"separators", Words{" "}}});
  });
}

TEST(Tokenizer, takes_no_part_of_a_character) {
  expect_error("matches a part of a character", [] { tokens({"\xC3\xA9"}, {{"tokenexp", std::string("\\C")}}); });
  expect_error("matches a part of a character", [] { tokens({"\xC3\xA9"}, {{"separators", Words{"\\C"}}}); });
  expect_error("matches a part of a character", [] { tokens({"a\xC3\xA9"}, {{"separators", Words{"\\B"}}}); });
  expect_tokens(tokens({"\xC3\xA9"}, {{"tokenexp", std::string("\\B")}}), {1, 0}, {});
  expect_error("a text is no UTF-8 at byte 1", [] { tokens({"a\xFF"}, {{"tokenexp", std::string("a")}}); });
  expect_error("a text is no UTF-8 at byte 0", [] { tokens({"\xC3"}, {{"separators", Words{""}}}); });
}

TEST(Tokenizer, says_what_it_cannot_do) {
  expect_error("is no RE2 expression", [] { tokens({"a"}, {{"tokenexp", std::string("(")}}); });
  expect_error("neither separators nor tokenexp are given", [] { tokens({"a"}, {}); });
  expect_error("mincharnum is 0, expected 1 or more", [] {
    tokens({"a"}, {{"tokenexp", std::string("a")}, {"mincharnum", int64_t{0}}});
  });
}

TEST(RegexFullMatch, keeps_the_shape_and_needs_the_whole_text) {
  const Tensor x = Tensor::of_strings({2, 2}, {"ab", "abc", "", "xab"});
  const Tensor y = run("RegexFullMatch", {x}, {{"pattern", std::string("ab")}});
  EXPECT_EQ(y.type(), DType::boolean);
  EXPECT_EQ(y.shape(), (Shape{2, 2}));
  EXPECT_EQ(y.to_ints(), (Ints{1, 0, 0, 0}));
  for (const char* wrong : {"(ab", "a**", "[b-a]", "\\8", "a{1001}", "(?x)", "(((a{1000}){1000}){1000})"})
    expect_error("is no RE2 expression", [&] { run("RegexFullMatch", {x}, {{"pattern", std::string(wrong)}}); });
  expect_error("is no RE2 expression", [&] { run("RegexFullMatch", {x}, {{"pattern", std::string(100000, '(')}}); });
  expect_error("pattern is missing", [&] { run("RegexFullMatch", {x}); });
}

}  // namespace
}  // namespace smelt::ops::test
