// Which of ONNX's node cases have a kernel on the processor at every node, and that every such kernel agrees with the reference.
// Writes conformance/without_cpu.txt: each of the others, and what the first node without a kernel was refused for.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <map>

#include "conformance/candidates.h"
#include "support/paths.h"

namespace smelt::conformance {
namespace {

constexpr int threads = 2;

struct Found {
  std::string missing;  // why a node of the case has no kernel
  std::vector<std::string> wrong;
};

/// `constants`: inputs but the first are known when kernels are made, as they mostly are in models.
Found try_case(const Case& c, bool constants) {
  Found found;
  ops::Machine machine;
  machine.threads = threads;
  machine.isa = "avx2";
  try {
    walk_nodes(c, [&](const Node& n, std::span<const Tensor> inputs, const std::vector<Tensor>& outputs) {
      if (needs_no_kernel(n) || is_dynamic(n) || has_text(outputs)) return;
      try {
        ops::BoundNode b = bound_node(n, inputs, outputs);
        if (!constants)
          for (ops::BoundTensor& t : b.inputs) t.constant = Tensor();
        const ops::Offer offer = ops::offer(b, machine);
        if (offer.candidates.empty() || offer.candidates[0].tactic == "reference") {
          if (!found.missing.empty()) return;
          found.missing = n.domain + (n.domain.empty() ? "" : ".") + n.op + ":";
          for (const auto& r : offer.refused) found.missing += fmt::format(" {}: {};", r.tactic, r.why.text);
        }
        for (const ops::Candidate& candidate : offer.candidates) {
          if (candidate.tactic == "reference" || draws_anew(n)) continue;
          if (std::string wrong = run_candidate(candidate, inputs, outputs); !wrong.empty())
            found.wrong.push_back(offer.problem + ": " + wrong);
        }
      } catch (const std::exception& e) {
        found.wrong.push_back(n.op + ": " + e.what());
      }
    });
  } catch (const std::exception& e) {
    found.missing = std::string("not run: ") + e.what();
  }
  return found;
}

TEST(CpuKernels, agree_with_the_reference_on_the_node_cases_and_most_have_one_at_every_node) {
  const std::filesystem::path root = build_dir() / "conformance";
  if (!std::filesystem::exists(root / "node")) GTEST_SKIP() << "the cases are not written yet: run the conformance tests";
  std::map<std::string, int> without;
  int complete = 0;
  std::ofstream list(root / "without_cpu.txt");
  for (const Case& c : list_cases(root)) {
    if (!c.name.starts_with("node/")) continue;
    const Found found = try_case(c, true), computed = try_case(c, false);
    for (const Found* f : {&found, &computed})
      for (const std::string& w : f->wrong) ADD_FAILURE() << c.name << ": " << w;
    complete += found.missing.empty();
    if (found.missing.empty()) continue;
    ++without[found.missing.substr(0, found.missing.find(':'))];
    list << c.name << ": " << found.missing << '\n';
  }
  std::cout << complete << " node cases have a kernel at every node; the others lack one of";
  for (const auto& [op, count] : without) std::cout << ' ' << op << ' ' << count;
  std::cout << '\n';
  EXPECT_GE(complete, 1320);  // 1,333 in November 2026: without_cpu.txt has the others
}

}  // namespace
}  // namespace smelt::conformance
