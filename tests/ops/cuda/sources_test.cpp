// What is printed of the GPU's kernels: programs, types and entries. Control flow stands in the headers of src/kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "device/cuda/compiler.h"
#include "ops/cuda/dependent_launch.h"
#include "ops/cuda/forms.h"

namespace smelt::ops {
namespace {

bool of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The first keyword of control flow in C++ source without comments; empty where there is none.
std::string control_flow(std::string_view code) {
  static const std::set<std::string_view> keywords{"if",     "else", "for",  "while", "do",
                                                   "switch", "case", "goto", "break", "continue"};
  for (size_t begin = 0; begin < code.size(); ++begin) {
    size_t end = begin;
    while (end < code.size() && of_word(code[end])) ++end;
    if (const std::string_view word = code.substr(begin, end - begin); keywords.contains(word)) return std::string(word);
    begin = std::max(begin, end);
  }
  return {};
}

/// The bodies of the kernels in a source.
std::vector<std::string> bodies(const std::string& code) {
  std::vector<std::string> found;
  for (size_t at = code.find("__global__"); at != code.npos; at = code.find("__global__", at)) {
    const size_t begin = code.find('{', at);
    at = code.find("\n}", begin);
    found.push_back(code.substr(begin + 1, at - begin - 1));
  }
  return found;
}

/// What stands before the bodies of the kernels in a source: bounds, name and parameters.
std::vector<std::string> heads(const std::string& code) {
  std::vector<std::string> found;
  for (size_t at = code.find("__global__"); at != code.npos; at = code.find("__global__", at + 1))
    found.push_back(code.substr(at, code.find(") {\n", at) + 1 - at));
  return found;
}

class PrintedKernels : public ::testing::TestWithParam<std::string_view> {};

TEST_P(PrintedKernels, hold_no_control_flow_outside_of_their_headers) {
  each_source(GetParam(), [](const std::string& name, const device::cuda::Source& source) {
    EXPECT_EQ(control_flow(source.code), "") << name << " prints:\n" << source.code;
  });
}

TEST_P(PrintedKernels, are_one_call_each_after_their_wait_for_the_kernels_before) {
  each_source(GetParam(), [](const std::string& name, const device::cuda::Source& source) {
    const std::vector<std::string> all = bodies(source.code);
    EXPECT_FALSE(all.empty()) << name;
    const bool waits = !source.code.starts_with(waits_itself);
    for (const std::string& body : all) {
      EXPECT_EQ(body.starts_with("\n  wait_for_kernels_before();"), waits) << name << ":" << body;
      EXPECT_EQ(std::ranges::count(body, ';'), waits ? 2 : 1) << name << ":" << body;
    }
  });
}

TEST_P(PrintedKernels, have_one_argument_whose_size_the_host_asserts) {
  each_source(GetParam(), [](const std::string& name, const device::cuda::Source& source) {
    for (const std::string& head : heads(source.code)) {
      constexpr std::string_view by_value = "(const __grid_constant__ ", its_name = " args)";
      const size_t begin = head.find(by_value);
      ASSERT_NE(begin, head.npos) << name << ": " << head;
      ASSERT_TRUE(head.ends_with(its_name)) << name << ": " << head;
      const size_t type = begin + by_value.size();
      const std::string structure = head.substr(type, head.size() - its_name.size() - type);
      EXPECT_NE(source.code.find(fmt::format("static_assert(sizeof({}) == ", structure)), source.code.npos)
          << name << ": " << structure;
    }
  });
}

TEST(PrintedDepthwise, of_8_bits_multiplies_words_of_four_taps_where_threads_have_four_channels) {
  size_t of_words = 0;
  each_source("sm_90a", [&](const std::string& name, const device::cuda::Source& source) {
    if (!name.starts_with("conv:u8") || source.code.find("depthwise_conv<") == std::string::npos) return;
    const bool words = source.code.find("DepthwiseArgs<unsigned char, unsigned int>") != std::string::npos;
    EXPECT_EQ(words, name.find("depthwise v2") == std::string::npos) << name;
    of_words += words;
  });
  EXPECT_GE(of_words, 6u);
}

INSTANTIATE_TEST_SUITE_P(Architectures, PrintedKernels,
                         ::testing::ValuesIn(device::cuda::known_archs().begin(), device::cuda::known_archs().end()),
                         [](const auto& info) { return std::string(info.param); });

TEST(ControlFlow, is_found_as_a_word_and_not_within_one) {
  EXPECT_EQ(control_flow("y = x;\nif (y) return;"), "if");
  EXPECT_EQ(control_flow("#pragma unroll\n  for (int i = 0; i < 4; ++i) f(i);"), "for");
  EXPECT_EQ(control_flow("switch(i) {}"), "switch");
  EXPECT_EQ(control_flow("#if __CUDA_ARCH__ >= 900"), "if");
  EXPECT_EQ(control_flow("wait_for_kernels_before(); notify(before, double_do, if_any ? a : b);"), "");
}

}  // namespace
}  // namespace smelt::ops
