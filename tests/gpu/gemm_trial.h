// Matrix products on a GPU against the reference: their cases, and how a test runs candidates or one configuration.
#pragma once

#include <fmt/core.h>

#include <future>
#include <map>

#include "ops/matmul/cuda_offer.h"
#include "product_trial.h"

namespace smelt::ops {

using matmul::CudaConfig;

struct Gemm {
  DType type = DType::f16;
  Shape a, b;  // as stored
  bool trans_a = false, trans_b = false;
  double alpha = 1;
  std::string program;
  std::vector<Tensor> operands;
};

inline Shape result_shape(const Gemm& g) {
  Node n;
  n.domain = smelt_domain;
  n.op = "MatMul";
  if (g.trans_a) n.attrs["transA"] = int64_t{1};
  if (g.trans_b) n.attrs["transB"] = int64_t{1};
  n.inputs = {ValueId(0), ValueId(1)};
  n.outputs = {ValueId(2)};
  const TensorDesc in[] = {{g.type, g.a, true, nullptr}, {g.type, g.b, true, nullptr}};
  TensorDesc out;
  infer(n, in, {&out, 1});
  return out.shape;
}

inline Trial gemm_trial(const Gemm& g) {
  Trial t;
  const DType out = begin_product(t, g);
  if (g.alpha != 1) t.node.attrs["alpha"] = static_cast<float>(g.alpha);
  t.result(out, result_shape(g));
  return t;
}

inline double gemm_tolerance(DType type, int64_t k, bool tf32 = false) {
  return product_tolerance(type, tf32 ? off_in_tf32 : off_in_float, k);
}

inline int64_t depth(const Gemm& g) { return g.a.size() == 1 || !g.trans_a ? g.a.back() : g.a[g.a.size() - 2]; }

/// The `count` candidates of each tactic that rank first agree with the reference; how many of cuBLASLt's there were.
inline size_t expect_agreement(Trial& t, int64_t k, size_t count) {
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, gpu_machine());
  SCOPED_TRACE(o.problem);
  EXPECT_FALSE(o.candidates.empty());
  const Tensor want = evaluate(t.node, t.inputs)[0];
  std::map<std::string, size_t> done;
  for (const Candidate& c : o.candidates) {
    if (done[c.tactic]++ >= count) continue;
    SCOPED_TRACE(c.tactic + " " + c.config);
    EXPECT_LE(error(run_on_gpu(t, c)[0], want), gemm_tolerance(t.bound.outputs[0].type, k));
  }
  return done["cublaslt"];
}

inline size_t expect(const Gemm& g, size_t count = 2) {
  Trial t = gemm_trial(g);
  return expect_agreement(t, depth(g), count);
}

/// One configuration on a problem, whose kernel compiles beside others.
struct ConfigTrial {
  Trial trial;
  std::string name;
  double most = 0;  // error
  std::future<std::unique_ptr<Kernel>> kernel;

  ConfigTrial(const CudaConfig& c, const Gemm& g, bool tf32) : trial(gemm_trial(g)) {
    trial.bound.node = &trial.node;
    const auto found = matmul::cuda_problem(trial.bound);
    if (!found) {
      ADD_FAILURE() << found.refusal().text;
      return;
    }
    name = matmul::print(found->problem) + " " + c.print();
    most = gemm_tolerance(trial.bound.outputs[0].type, depth(g), tf32);
    kernel = std::async(std::launch::async, [p = *found, c] { return matmul::cuda_product(p, c, *test_gpu()); });
  }
  void agrees() {
    SCOPED_TRACE(name);
    ASSERT_TRUE(kernel.valid());
    EXPECT_LE(error(run_on_gpu(trial, *kernel.get())[0], evaluate(trial.node, trial.inputs)[0]), most);
  }
};

inline void expect_config(const CudaConfig& c, const Gemm& g) { ConfigTrial(c, g, false).agrees(); }

}  // namespace smelt::ops
