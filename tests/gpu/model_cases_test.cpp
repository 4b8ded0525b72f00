// ONNX's own cases as models: imported, planned and run by a Session on GPU 0, with no step on the processor. Their parameters
// (axes, shapes, pads) come as inputs, as the cases give them. Runs where the cases have been written, as the node cases do.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "conformance/cases.h"
#include "gpu/gpu_cases.h"
#include "smelt/session.h"

namespace smelt {
namespace {

enum class Verdict { passed, unsupported, failed };

struct Result {
  Verdict verdict;
  std::string why;
};

/// The first thing that differs between what the case expects and what a plan returns.
std::string differs(const conformance::Case& c, Session& session) {
  for (const auto& entry : std::filesystem::directory_iterator(c.folder)) {
    if (!entry.is_directory()) continue;
    const std::vector<Tensor> inputs = conformance::read_tensors(entry.path(), "input");
    const std::vector<Tensor> expected = conformance::read_tensors(entry.path(), "output");
    std::map<std::string, Tensor> feeds;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].valid()) feeds[session.inputs().at(i).name] = inputs[i];
    const auto found = session.run(feeds);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Tensor got = to_host(found.at(session.outputs().at(i).name));
      if (std::string d = conformance::difference(got, expected[i], conformance::on_gpu(c.tolerance, got.type())); !d.empty())
        return fmt::format("output {}: {}", i, d);
    }
  }
  return {};
}

Result run(const conformance::Case& c) {
  Options options;
  options.device = "gpu";
  options.tuning_level = 0;
  std::string why;
  try {
    Session session((c.folder / "model.onnx").string(), options);
    why = differs(c, session);
    if (why.empty()) return {Verdict::passed, why};
  } catch (const Error& e) {
    why = e.what();
    if (e.code() == ExitCode::unsupported) return {Verdict::unsupported, why};
  }
  // What the reference does not give either (sequences, strings, training, numbers that are drawn) is no failure of the GPU's.
  return {conformance::run_case(c).empty() ? Verdict::failed : Verdict::unsupported, why};
}

class GpuModelCases : public ::testing::TestWithParam<int> {};

TEST_P(GpuModelCases, those_that_run_without_the_processor_are_right) {
  const std::filesystem::path root = conformance::cases_for_gpu();
  if (!std::filesystem::exists(root / "node")) GTEST_SKIP() << "no cases at " << root;
  int number = 0, all = 0, passed = 0, light = 0;
  for (const conformance::Case& c : conformance::list_cases(root)) {
    const bool node = c.name.starts_with("node/"), is_light = c.name.starts_with("light/");
    if ((!node && !is_light) || number++ % conformance::gpu_slices != GetParam()) continue;
    const Result r = run(c);
    std::string line = r.why.substr(0, 300);
    std::ranges::replace(line, '\n', ' ');
    EXPECT_NE(r.verdict, Verdict::failed) << c.name << ": " << line;
    EXPECT_FALSE(is_light && r.verdict == Verdict::unsupported) << c.name << ": " << line;
    if (r.verdict == Verdict::unsupported) std::cout << "not on the GPU: " << c.name << ": " << line << '\n';
    all += node, passed += node && r.verdict == Verdict::passed, light += is_light && r.verdict == Verdict::passed;
  }
  std::cout << passed << " of " << all << " node cases and " << light << " light models ran on the GPU alone\n";
  EXPECT_GE(passed, all * 5 / 6);  // 1,732 of 1,884 on an H200; a slice may have fewer
}

INSTANTIATE_TEST_SUITE_P(Slices, GpuModelCases, ::testing::Range(0, conformance::gpu_slices));

}  // namespace
}  // namespace smelt
