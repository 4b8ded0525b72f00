// The nodes of ONNX's own cases: every candidate on the GPU against the reference, in slices that may run side by side. Runs
// where the cases have been written (test_conformance writes them): beside the program in conformance/, or in the build folder.
#include "conformance/node_walk.h"
#include "gpu/gpu_batch.h"
#include "gpu/gpu_cases.h"
#include "ops/core/operator.h"

namespace smelt::ops {
namespace {

namespace fs = std::filesystem;

using conformance::cases_for_gpu, conformance::gpu_slices;

bool same_numbers(const Tensor& got, const Tensor& want, const conformance::Tolerance& t, std::string& why) {
  why = conformance::difference(got, want, conformance::on_gpu(t, want.type()));
  return why.empty();
}

struct Work {
  Trial trial;
  std::vector<Tensor> want;
  std::string name;
  conformance::Tolerance tolerance;
};

/// A node's trial and what the GPU is offered for it; nothing where there is no kernel.
std::optional<Offer> offered(Work& w) {
  w.trial.bound.node = &w.trial.node;
  try {
    return offer(w.trial.bound, gpu_machine());
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// Whether the node's results differ from run to run.
bool draws(const Node& n) {
  const OpDef* def = find(n.op, n.domain);
  return def && !def->deterministic && !n.has("seed");
}

class GpuNodeCases : public ::testing::TestWithParam<int> {};

TEST_P(GpuNodeCases, every_candidate_agrees_with_the_reference) {
  if (!fs::exists(cases_for_gpu() / "node")) GTEST_SKIP() << "no cases at " << cases_for_gpu();
  std::vector<std::unique_ptr<Work>> work;
  std::vector<Offer> offers;
  int complete = 0, ran = 0, number = 0, all_cases = 0;
  for (const conformance::Case& c : conformance::list_cases(cases_for_gpu())) {
    if (!c.name.starts_with("node/") || number++ % gpu_slices != GetParam()) continue;
    ++all_cases;
    bool all = true;
    try {
      conformance::walk_nodes(c, [&](const Node& n, std::span<const Tensor> inputs, const std::vector<Tensor>& outputs) {
        if (conformance::needs_no_kernel(n) || draws(n)) return;
        auto w = std::make_unique<Work>();
        w->trial.bound = conformance::bound_node(n, inputs, outputs);
        w->trial.node = n;
        w->trial.inputs.assign(inputs.begin(), inputs.end());
        w->want = outputs;
        w->name = c.name;
        w->tolerance = c.tolerance;
        auto o = offered(*w);
        all = all && o;
        if (!o) return;
        work.push_back(std::move(w));
        offers.push_back(std::move(*o));
      });
    } catch (const std::exception&) {
      all = false;  // strings, sequences: the reference does not run it either
    }
    complete += all;
  }
  std::vector<std::string> errors;
  const auto kernels = prepare_all(offers, errors);
  for (const std::string& e : errors) ADD_FAILURE() << e;
  for (size_t i = 0; i < work.size(); ++i) {
    Work& w = *work[i];
    for (size_t k = 0; k < kernels[i].size(); ++k) {
      if (!kernels[i][k]) continue;
      SCOPED_TRACE(w.name + " " + offers[i].problem + " " + offers[i].candidates[k].tactic + " " +
                   offers[i].candidates[k].config);
      std::vector<Tensor> got = run_on_gpu(w.trial, *kernels[i][k]);
      if (is_bound_at_most(w.trial.bound)) cut_to_found(w.trial, got, w.want);
      ++ran;
      for (size_t o = 0; o < w.want.size(); ++o) {
        std::string why;
        if (!w.want[o].valid()) continue;
        EXPECT_TRUE(same_numbers(got[o], w.want[o], w.tolerance, why)) << "output " << o << ": " << why;
      }
    }
  }
  std::cout << complete << " of " << all_cases << " node cases ran with a kernel at every node, " << ran << " candidates\n";
  EXPECT_GE(complete, all_cases * 5 / 6);  // 1,731 of 1,884 on an H200; a slice may have fewer
}

INSTANTIATE_TEST_SUITE_P(Slices, GpuNodeCases, ::testing::Range(0, gpu_slices));

}  // namespace
}  // namespace smelt::ops
