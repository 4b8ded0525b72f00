// Many trials of one test: their kernels are compiled by as many threads as there are cores, then run one after the other.
#pragma once

#include <atomic>
#include <thread>

#include "gpu/gpu_trial.h"
#include "ops/core/data_dependent.h"

namespace smelt::ops {

/// Prepares every candidate of these offers, in parallel; a null kernel where that threw, whose message is in `errors`.
inline std::vector<std::vector<std::unique_ptr<Kernel>>> prepare_all(const std::vector<Offer>& offers,
                                                                     std::vector<std::string>& errors) {
  std::vector<std::vector<std::unique_ptr<Kernel>>> kernels(offers.size());
  std::vector<std::pair<size_t, size_t>> jobs;
  for (size_t o = 0; o < offers.size(); ++o) {
    kernels[o].resize(offers[o].candidates.size());
    for (size_t c = 0; c < kernels[o].size(); ++c) jobs.emplace_back(o, c);
  }
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (size_t job; (job = next++) < jobs.size();) {
        const auto [o, c] = jobs[job];
        try {
          kernels[o][c] = offers[o].candidates[c].prepare();
        } catch (const std::exception& e) {
          std::lock_guard lock(mutex);
          errors.push_back(offers[o].problem + " " + offers[o].candidates[c].config + ": " + e.what());
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return kernels;
}

/// A node ("Op" or "domain:Op") whose inputs but the first are constants, with as many outputs as the reference makes of `outputs`.
inline Trial node_trial(const std::string& op, std::vector<Tensor> inputs, std::map<std::string, Attribute> attributes = {},
                        int outputs = 1) {
  Trial t;
  const size_t colon = op.find(':');
  t.node.op = colon == std::string::npos ? op : op.substr(colon + 1);
  if (colon != std::string::npos) t.node.domain = op.substr(0, colon);
  t.node.attrs = std::move(attributes);
  for (size_t i = 0; i < inputs.size(); ++i) t.add(std::move(inputs[i]), i > 0);
  Node asked = t.node;
  for (int o = 0; o < outputs; ++o) asked.outputs.push_back(static_cast<ValueId>(101 + o));
  const std::vector<Tensor> results = evaluate(asked, t.inputs);
  for (const Tensor& y : results) t.result(y.type(), y.shape());
  return t;
}

/// A node that finds out how many results it has, bound as ops/core/data_dependent.h says; its inputs from `constants` on are constants.
inline Trial finding_trial(const std::string& op, std::vector<Tensor> inputs, std::map<std::string, Attribute> attributes = {},
                           size_t constants = 2) {
  Trial t;
  t.node.op = op;
  t.node.attrs = std::move(attributes);
  for (size_t i = 0; i < inputs.size(); ++i) t.add(inputs[i], i >= constants);
  t.bound.outputs = bound_at_most(outputs_at_most(t.node, t.bound.inputs));
  for (size_t o = 0; o + 1 < t.bound.outputs.size(); ++o) t.node.outputs.push_back(static_cast<ValueId>(101 + o));
  return t;
}

/// What a kernel found, in the shapes of `want`; a failed expectation where it found another number.
inline void cut_to_found(const Trial& t, std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  const std::vector<AtMost> most = outputs_at_most(t.node, t.bound.inputs);
  ASSERT_EQ(most.size() + 1, got.size());
  const int64_t count = got.back().to_ints()[0];
  for (size_t o = 0; o < most.size(); ++o) {
    if (most[o].type == DType::undefined) continue;
    ASSERT_EQ(found_shape(most[o], count), want[o].shape()) << "output " << o;
    got[o] = Tensor::borrow(want[o].type(), want[o].shape(), got[o].raw(), std::make_shared<Tensor>(got[o]));
  }
}

/// A test whose trials are run when its body is done.
class GpuBatch : public ::testing::Test {
 protected:
  /// Every candidate must agree with the reference within the tolerance, and there must be one.
  void expect(Trial t, double tolerance = 0) { trials_.push_back({std::make_unique<Trial>(std::move(t)), tolerance}); }

  void TearDown() override {
    std::vector<Offer> offers;
    for (const auto& [t, tolerance] : trials_) {
      t->bound.node = &t->node;
      offers.push_back(offer(t->bound, gpu_machine()));
    }
    std::vector<std::string> errors;
    const auto kernels = prepare_all(offers, errors);
    for (const std::string& e : errors) ADD_FAILURE() << e;
    for (size_t i = 0; i < trials_.size(); ++i) {
      Trial& t = *trials_[i].first;
      const std::vector<Tensor> want = evaluate(t.node, t.inputs);
      for (size_t c = 0; c < kernels[i].size(); ++c) {
        SCOPED_TRACE(offers[i].problem + " " + offers[i].candidates[c].config);
        if (!kernels[i][c]) continue;
        std::vector<Tensor> got = run_on_gpu(t, *kernels[i][c]);
        if (is_bound_at_most(t.bound)) cut_to_found(t, got, want);
        for (size_t o = 0; o < want.size(); ++o) {
          if (!want[o].valid()) continue;
          ASSERT_EQ(got[o].shape(), want[o].shape()) << "output " << o;
          EXPECT_LE(error(got[o], want[o]), trials_[i].second) << "output " << o;
        }
      }
    }
  }

 private:
  std::vector<std::pair<std::unique_ptr<Trial>, double>> trials_;
};

}  // namespace smelt::ops
