// Operators of regular expressions: RegexFullMatch, and ONNX Runtime's Tokenizer, which exports of scikit-learn's text vectorizers have.
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"
#include "ops/core/list_inputs.h"
#include "ops/reference_only/family.h"

namespace smelt::ops {
namespace {

/// The expression, read once on each thread for as long as few others are. Of matches at the first place where there is one the
/// longest counts, as ONNX Runtime asks of RE2; for a match of the whole text it makes no difference.
const RE2& regex_of(const std::string& pattern) {
  constexpr size_t most = 32;
  thread_local std::map<std::string, std::unique_ptr<RE2>> known;
  if (const auto at = known.find(pattern); at != known.end()) return *at->second;
  RE2::Options options;
  options.set_longest_match(true);
  options.set_log_errors(false);
  auto regex = std::make_unique<RE2>(pattern, options);
  if (!regex->ok()) fail("the expression '{}' is no RE2 expression: {}", pattern, regex->error());
  if (known.size() >= most) known.clear();
  return *known.emplace(pattern, std::move(regex)).first->second;
}

struct Match {
  size_t begin, bytes;
};

/// Whether a character goes on at this byte.
bool inside_character(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

/// The first match at or behind `at`, which sees the text before that, too.
std::optional<Match> find_match(const RE2& regex, std::string_view text, size_t at) {
  check_stop();
  const re2::StringPiece whole(text.data(), text.size());
  re2::StringPiece found;
  if (!regex.Match(whole, at, text.size(), RE2::UNANCHORED, &found, 1)) return {};
  return Match{static_cast<size_t>(found.data() - text.data()), found.size()};
}

/// `\C` and `\B` can match inside a character.
void expect_characters(const RE2& regex, std::string_view text, const Match& m) {
  if (inside_character(text, m.begin) || inside_character(text, m.begin + m.bytes))
    fail("the expression '{}' matches a part of a character", regex.pattern());
}

/// Bytes of the character at the front of a text that is not empty; 0 where these are no character of UTF-8.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t bytes = byte(0) < 0x80 ? 1 : byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : byte(0) < 0xF5 ? 4 : 0;
  if (bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return bytes;
}

void expect_utf8(std::string_view text) {
  for (size_t at = 0, bytes; at < text.size(); at += bytes) {
    bytes = character_bytes(text.substr(at));
    if (bytes == 0) fail("a text is no UTF-8 at byte {}", at);
  }
}

void expect_strings(const InferContext& c) {
  if (type_of(c, 0) != DType::string) fail("input 0 has type {}, expected string", name(c.in(0).type));
}

// --- RegexFullMatch -----------------------------------------------------------------------------------------------

void infer_full_match(InferContext& c) {
  expect_strings(c);
  if (!c.node.has("pattern")) fail("pattern is missing");
  if (!c.in(0).shape_known) return c.set_type(0, DType::boolean);
  c.set(0, DType::boolean, c.shape(0));
}

void run_full_match(ComputeContext& c) {
  const RE2& regex = regex_of(c.node.get_string("pattern", ""));
  std::ranges::transform(c.in(0).strings(), c.outputs[0].data<bool>(), [&](const std::string& text) {
    check_stop();
    return RE2::FullMatch(text, regex);
  });
}

// --- Tokenizer ----------------------------------------------------------------------------------------------------

void infer_tokenizer(InferContext& c) {
  expect_strings(c);
  if (!c.in(0).shape_known) return c.set_type(0, DType::string);
  const size_t rank = c.shape(0).size();
  if (rank != 1 && rank != 2) fail("the input has shape {}, expected [C] or [N, C]", to_string(c.shape(0)));
  c.set_type(0, DType::string);
}

using Pieces = std::vector<std::string_view>;

/// Behind an empty match goes on a character later, which no token has.
size_t behind(std::string_view text, const Match& m) {
  size_t at = m.begin + m.bytes;
  if (m.bytes > 0 || at == text.size()) return at;
  do ++at;
  while (inside_character(text, at));
  return at;
}

/// What matches.
Pieces matching(std::string_view text, const RE2& token) {
  Pieces found;
  for (size_t at = 0; at < text.size();) {
    const auto m = find_match(token, text, at);
    if (!m) break;
    if (m->bytes > 0) expect_characters(token, text, *m);
    found.push_back(text.substr(m->begin, m->bytes));
    at = behind(text, *m);
  }
  return found;
}

/// What lies between matches.
Pieces separated(std::string_view text, const RE2& separator) {
  Pieces found;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto m = find_match(separator, text, at);
    if (!m) break;
    expect_characters(separator, text, *m);
    found.push_back(text.substr(begin, m->begin - begin));
    begin = at = behind(text, *m);
  }
  found.push_back(text.substr(begin));
  return found;
}

Pieces characters(std::string_view text) {
  Pieces found;
  for (size_t at = 0; at < text.size(); at += found.back().size())
    found.push_back(text.substr(at, character_bytes(text.substr(at))));
  return found;
}

int64_t character_count(std::string_view text) {
  int64_t n = 0;
  for (size_t at = 0; at < text.size(); ++n) at += character_bytes(text.substr(at));
  return n;
}

/// The expressions, one after the other, each of which takes apart what those before left. They come before `tokenexp`.
Pieces tokens_of(std::string_view text, const std::vector<std::string>& separators, const std::string& expression) {
  const bool by_character = separators.empty() ? expression == "." : separators.size() == 1 && separators[0].empty();
  if (by_character) return characters(text);  // line ends, too
  if (separators.empty()) return matching(text, regex_of(expression));
  Pieces pieces = {text};
  for (const std::string& separator : separators) {
    Pieces finer;
    for (const std::string_view piece : pieces)
      std::ranges::copy(separated(piece, regex_of(separator)), std::back_inserter(finer));
    pieces = std::move(finer);
  }
  return pieces;
}

void run_tokenizer(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const std::vector<std::string> separators = c.node.get_strings("separators");
  const std::string expression = c.node.get_string("tokenexp", ""), pad = c.node.get_string("pad_value", "");
  const bool mark = c.node.get_int("mark", 0) != 0;
  const int64_t least = c.node.get_int("mincharnum", 1);
  if (separators.empty() && expression.empty()) fail("neither separators nor tokenexp are given");
  if (least < 1) fail("mincharnum is {}, expected 1 or more", least);
  std::vector<Pieces> rows;
  size_t longest = 0;
  for (const std::string& text : x.strings()) {
    expect_utf8(text);
    rows.push_back(tokens_of(text, separators, expression));
    std::erase_if(rows.back(),
                  [&](std::string_view token) { return token.empty() || (least > 1 && character_count(token) < least); });
    longest = std::max(longest, rows.back().size());
  }
  const size_t width = longest == 0 ? 0 : longest + (mark ? 2 : 0);
  Shape s = x.shape();
  s.push_back(static_cast<int64_t>(width));
  check_available(elements(s) * static_cast<int64_t>(sizeof(std::string)), DType::string, s);
  std::vector<std::string> y;
  y.reserve(static_cast<size_t>(elements(s)));
  for (const Pieces& row : rows) {
    if (width == 0) break;
    if (mark) y.emplace_back("\x02");
    y.insert(y.end(), row.begin(), row.end());
    if (mark) y.emplace_back("\x03");
    y.insert(y.end(), longest - row.size(), pad);
  }
  c.outputs[0] = Tensor::of_strings(s, std::move(y));
}

}  // namespace

std::span<const OpRow> token_ops() {
  static constexpr OpRow table[] = {
      {{"RegexFullMatch", onnx_domain, infer_full_match, run_full_match}},
      {{"Tokenizer", microsoft_domain, infer_tokenizer, run_tokenizer}, {.data_dependent = true}},
  };
  return table;
}

}  // namespace smelt::ops
