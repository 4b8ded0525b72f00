// String operators.
#include <algorithm>
#include <cctype>
#include <functional>

#include "base/error.h"
#include "base/memory.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/reference_only/family.h"

namespace smelt::ops {
namespace {

void expect_strings(const InferContext& c, size_t i) {
  if (type_of(c, i) != DType::string) fail("input {} has type {}, expected string", i, name(c.in(i).type));
}

constexpr int64_t longest_string = int64_t{1} << 28;  // bytes: a Loop doubles a string to that within a second

// --- StringConcat -------------------------------------------------------------------------------------------------

void infer_string_concat(InferContext& c) {
  expect_strings(c, 0);
  expect_strings(c, 1);
  if (!c.in(0).shape_known || !c.in(1).shape_known) return c.set_type(0, DType::string);
  const Shape both[] = {c.shape(0), c.shape(1)};
  c.set(0, DType::string, broadcast_all(both));
}

void run_string_concat(ComputeContext& c) {
  const Shape& s = c.outputs[0].shape();
  const LoopNest nest(s, {broadcast_strides(c.in(0).shape(), s), broadcast_strides(c.in(1).shape(), s)});
  const auto &a = c.in(0).strings(), &b = c.in(1).strings();
  const auto for_each_pair = [&](const std::function<void(const std::string&, const std::string&)>& f) {
    nest.for_each_run([&](std::span<const int64_t> at) {
      for (int64_t i = 0; i < nest.run(); ++i)
        f(a[static_cast<size_t>(at[0] + i * nest.stride(0))], b[static_cast<size_t>(at[1] + i * nest.stride(1))]);
    });
  };
  int64_t all = 0;
  for_each_pair([&](const std::string& x, const std::string& y) {
    const auto length = static_cast<int64_t>(x.size() + y.size());
    if (length > longest_string) fail("a string of {} bytes, expected at most {}", length, longest_string);
    all += length;
  });
  check_available(all, DType::string, s);
  std::vector<std::string> joined;
  joined.reserve(static_cast<size_t>(elements(s)));
  for_each_pair([&](const std::string& x, const std::string& y) { joined.push_back(x + y); });
  c.outputs[0] = Tensor::of_strings(s, std::move(joined));
}

// --- StringSplit --------------------------------------------------------------------------------------------------

void infer_string_split(InferContext& c) {
  expect_strings(c, 0);
  c.set_type(0, DType::string);
  if (c.in(0).shape_known)
    c.set(1, DType::i64, c.shape(0));
  else
    c.set_type(1, DType::i64);
}

bool is_space(char ch) { return std::isspace(static_cast<unsigned char>(ch)) != 0; }

/// Python's str.split: without a delimiter, runs of white space separate and none is left at either end.
std::vector<std::string> split(const std::string& text, const std::string& delimiter, int64_t most) {
  std::vector<std::string> parts;
  size_t at = 0;
  if (delimiter.empty()) {
    for (;;) {
      while (at < text.size() && is_space(text[at])) ++at;
      if (at == text.size()) return parts;
      if (static_cast<int64_t>(parts.size()) == most) {
        size_t end = text.size();
        while (is_space(text[end - 1])) --end;
        parts.push_back(text.substr(at, end - at));
        return parts;
      }
      const size_t begin = at;
      while (at < text.size() && !is_space(text[at])) ++at;
      parts.push_back(text.substr(begin, at - begin));
    }
  }
  if (text.empty()) return parts;
  while (static_cast<int64_t>(parts.size()) < most) {
    const size_t next = text.find(delimiter, at);
    if (next == std::string::npos) break;
    parts.push_back(text.substr(at, next - at));
    at = next + delimiter.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

void run_string_split(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const std::string delimiter = c.node.get_string("delimiter", "");
  const int64_t most = c.node.get_int("maxsplit", INT64_MAX);
  std::vector<std::vector<std::string>> parts;
  size_t widest = 0;
  for (const std::string& text : x.strings()) {
    parts.push_back(split(text, delimiter, most));
    widest = std::max(widest, parts.back().size());
  }
  Shape s = x.shape();
  s.push_back(static_cast<int64_t>(widest));
  Tensor y = Tensor::empty(DType::string, s);
  for (size_t i = 0; i < parts.size(); ++i) {
    std::copy(parts[i].begin(), parts[i].end(), y.strings().begin() + static_cast<std::ptrdiff_t>(i * widest));
    if (c.wants(1)) c.outputs[1].data<int64_t>()[i] = static_cast<int64_t>(parts[i].size());
  }
  c.outputs[0] = y;
}

// --- StringNormalizer ---------------------------------------------------------------------------------------------

void infer_string_normalizer(InferContext& c) {
  expect_strings(c, 0);
  c.set_type(0, DType::string);
}

/// Letters of ASCII only; other bytes of UTF-8 stay as they are.
std::string change_case(std::string s, const std::string& how) {
  for (char& ch : s) {
    const auto byte = static_cast<unsigned char>(ch);
    if (byte < 128) ch = static_cast<char>(how == "LOWER" ? std::tolower(byte) : how == "UPPER" ? std::toupper(byte) : byte);
  }
  return s;
}

void run_string_normalizer(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const bool one_row = x.rank() == 2 && x.shape()[0] == 1;
  if (x.rank() != 1 && !one_row) fail("the input has shape {}, expected [C] or [1, C]", to_string(x.shape()));
  const std::string change = c.node.get_string("case_change_action", "NONE");
  if (change != "NONE" && change != "LOWER" && change != "UPPER")
    fail("case_change_action is '{}', expected 'NONE', 'LOWER' or 'UPPER'", change);
  const bool exact = c.node.get_int("is_case_sensitive", 0) != 0;
  std::vector<std::string> stop = c.node.get_strings("stopwords"), kept;
  if (!exact)
    std::transform(stop.begin(), stop.end(), stop.begin(), [](const std::string& s) { return change_case(s, "LOWER"); });
  for (const std::string& word : x.strings()) {
    if (std::find(stop.begin(), stop.end(), exact ? word : change_case(word, "LOWER")) == stop.end())
      kept.push_back(change_case(word, change));
  }
  if (kept.empty()) kept.emplace_back();
  const int64_t count = static_cast<int64_t>(kept.size());
  c.outputs[0] = Tensor::of_strings(one_row ? Shape{1, count} : Shape{count}, std::move(kept));
}

}  // namespace

std::span<const OpRow> text_ops() {
  static constexpr OpRow table[] = {
      {{"StringConcat", onnx_domain, infer_string_concat, run_string_concat}},
      {{"StringSplit", onnx_domain, infer_string_split, run_string_split}, {.data_dependent = true}},
      {{"StringNormalizer", onnx_domain, infer_string_normalizer, run_string_normalizer}},
  };
  return table;
}

}  // namespace smelt::ops
