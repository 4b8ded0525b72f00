// ONNX's backend test cases against the reference operators. The cases that do not pass are listed with a reason in
// expected_failures.txt: one that starts to pass must leave the list, and none is skipped.
//
//   test_conformance                     writes the cases if need be, runs them all, writes conformance/results.txt
//   test_conformance --cases=SUBSTRING   runs only the cases whose name contains it, and prints each
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include "base/file.h"
#include "cases.h"
#include "support/paths.h"
#include "support/sanitized.h"

namespace smelt::conformance {
namespace {

namespace fs = std::filesystem;

const fs::path here = source_dir() / "tests/conformance";
const fs::path root = build_dir() / "conformance";
constexpr unsigned seconds_per_case = 120;

/// name → reason; lines are "name: reason", comments begin with #.
std::map<std::string, std::string> expected_failures() {
  std::map<std::string, std::string> result;
  std::ifstream file(here / "expected_failures.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) throw std::runtime_error("expected_failures.txt: no reason in line '" + line + "'");
    result[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return result;
}

std::vector<Case> cases() {
  const std::string command = fmt::format("'{}' '{}' '{}'", python(), (here / "generate.py").string(), root.string());
  if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot write the cases: " + command);
  std::vector<Case> all = list_cases(root);
  // Whole models by plain loops: minutes each without optimisation.
  if (sanitized) std::erase_if(all, [](const Case& c) { return c.name.starts_with("light/"); });
  return all;
}

TEST(Conformance, every_case_passes_or_is_listed_with_its_reason) {
  const std::vector<Outcome> outcomes = run_all(cases(), seconds_per_case);
  const auto expected = expected_failures();
  std::map<std::string, int> passed, total;
  std::ofstream results(root / "results.txt");
  for (const Outcome& o : outcomes) {
    const std::string kind = o.name.substr(0, o.name.find('/'));
    ++total[kind];
    if (o.failure.empty()) ++passed[kind];
    results << o.name << ": " << (o.failure.empty() ? "passed" : o.failure) << "\n";
    const bool listed = expected.contains(o.name);
    if (o.failure.empty())
      EXPECT_FALSE(listed) << o.name << " passes: take it off expected_failures.txt";
    else
      EXPECT_TRUE(listed) << o.name << ": " << o.failure;
  }
  for (const auto& [name, reason] : expected) {
    EXPECT_TRUE(std::any_of(outcomes.begin(), outcomes.end(), [&name = name](const Outcome& o) { return o.name == name; }))
        << "no such case: " << name;
  }
  for (const auto& [kind, count] : total) std::cout << kind << ": " << passed[kind] << " of " << count << " pass\n";
  EXPECT_EQ(total["node"], 1884);
  EXPECT_GE(passed["node"], 1600);
  EXPECT_EQ(passed["light"], sanitized ? 0 : 9);
  EXPECT_GE(passed["pytorch-converted"] + passed["pytorch-operator"], 100);
}

TEST(Difference, rejects_zeros_a_shift_a_transpose_one_wrong_element_and_nan) {
  const Tensor good = Tensor::of<float>({2, 3}, {0.5f, -1.5f, 2.5f, 3.5f, -4.5f, 5.5f});
  const Tolerance t;
  EXPECT_EQ(difference(good, good.clone(), t), "");
  EXPECT_NE(difference(Tensor::zeros(DType::f32, {2, 3}), good, t), "");
  EXPECT_NE(difference(Tensor::of<float>({2, 3}, {5.5f, 0.5f, -1.5f, 2.5f, 3.5f, -4.5f}), good, t), "");
  EXPECT_NE(difference(Tensor::of<float>({2, 3}, {0.5f, 3.5f, -1.5f, -4.5f, 2.5f, 5.5f}), good, t), "");
  EXPECT_NE(difference(Tensor::of<float>({2, 3}, {0.5f, -1.5f, 2.51f, 3.5f, -4.5f, 5.5f}), good, t), "");
  EXPECT_NE(difference(Tensor::of<float>({2, 3}, {0.5f, -1.5f, NAN, 3.5f, -4.5f, 5.5f}), good, t), "");
  EXPECT_NE(difference(good.reshaped({3, 2}), good, t), "");
  EXPECT_NE(difference(good.cast(DType::f64), good, t), "");
  EXPECT_NE(difference(Tensor::of<int64_t>({1}, {INT64_MAX}), Tensor::of<int64_t>({1}, {INT64_MAX - 1}), t), "");
}

TEST(RunAll, reports_a_case_that_cannot_be_read_and_goes_on) {
  const Case missing{"node/none", "/nonexistent", {}};
  const auto outcomes = run_all({missing, missing}, 5);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_NE(outcomes[0].failure, "");
  EXPECT_NE(outcomes[1].failure, "");
}

/// Runs the cases whose name contains `part` and prints each; the number that failed.
int run_some(const std::string& part) {
  std::vector<Case> chosen = cases();
  std::erase_if(chosen, [&](const Case& c) { return c.name.find(part) == std::string::npos; });
  int failures = 0;
  for (const Outcome& o : run_all(chosen, seconds_per_case)) {
    std::cout << o.name << ": " << (o.failure.empty() ? "passed" : o.failure) << "\n";
    failures += !o.failure.empty();
  }
  std::cout << chosen.size() << " cases, " << failures << " failed\n";
  return failures;
}

}  // namespace
}  // namespace smelt::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string flag = "--cases=";
  if (argc == 2 && std::string(argv[1]).starts_with(flag))
    return smelt::conformance::run_some(std::string(argv[1]).substr(flag.size())) ? 1 : 0;
  return RUN_ALL_TESTS();
}
