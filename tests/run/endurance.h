// Ten thousand runs from eight threads over four plans: right answers, the same bits every time, and memory that does not grow.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "support/graphs.h"

namespace smelt::run {

using namespace test;

/// A graph of one input, tensors to run it on, and how far its results may be from the reference.
struct Endured {
  Graph graph;
  std::vector<Tensor> inputs;
  double tolerance;
};

/// relu(conv 3x3) twice with a residual, then the mean of each channel.
inline Graph convolutional_block() {
  Builder b;
  const SymShape image = to_sym({2, 16, 12, 10});
  const std::map<std::string, Attribute> around{{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  const ValueId x = b.input("x", image);
  const auto conv = [&](const std::string& name, ValueId v) {
    const ValueId w = b.weights(name + "_w", {16, 16, 3, 3}), bias = b.weights(name + "_b", {16});
    return b.node(name, "Conv", {v, w, bias}, image, DType::f32, around);
  };
  const ValueId inner = b.node("active", "Relu", {conv("first", x)}, image);
  const ValueId sum = b.node("sum", "Add", {conv("second", inner), x}, image);
  const ValueId y = b.node("y", "Relu", {sum}, image);
  b.output(y);
  b.output(b.node("means", "GlobalAveragePool", {y}, to_sym({2, 16, 1, 1})));
  return std::move(b.g);
}

inline std::vector<Endured> endured_plans() {
  const auto random = [](std::initializer_list<Shape> shapes, DType type = DType::f32) {
    std::vector<Tensor> all;
    for (const Shape& s : shapes) all.push_back(random_tensor(s, static_cast<unsigned>(all.size() + 1)).cast(type));
    return all;
  };
  const Shape image{2, 16, 12, 10}, tokens{2, 24, 64};
  std::vector<Endured> plans;
  plans.push_back({convolutional_block(), random({image, image, image}), 1e-4});
  plans.push_back({attention_block(DType::f16), random({tokens, tokens, tokens}, DType::f16), 5e-3});
  plans.push_back({symbolic_graph(), random({{1, 3, 4}, {5, 7, 4}, {2, 40, 4}}), 1e-5});
  plans.push_back({counting_graph(), random({{300}, {300}, {7}}), 1e-6});
  return plans;
}

/// Memory of some kind, and by how many bytes it may grow: after the first 720 runs, while Executions of a Session still meet
/// shapes that are new to them, and over the last 2320, when they have met them all.
struct FlatMemory {
  std::string what;
  std::function<int64_t()> held;
  int64_t growth, at_last;
};

/// Half of the runs are a Session's that the threads share, half an Execution's of the thread's own; half are on tensors that lie
/// where the plan's kernels use them in place.
inline void endure(const Options& options, const std::vector<FlatMemory>& memory) {
  constexpr int threads = 8, first_runs = 90, phases = 4, phase_runs = 290;
  static_assert(threads * (first_runs + phases * phase_runs) == 10000);
  struct Job {
    std::unique_ptr<Session> session;
    std::vector<Tensor> on_host, placed;
    std::vector<std::vector<Tensor>> answers;  // of the first run, by input
  };
  std::vector<Job> jobs;
  for (const Endured& e : endured_plans()) {
    Job job{std::make_unique<Session>(Plan::build(clone(e.graph), options)), e.inputs, {}, {}};
    for (const Tensor& x : e.inputs) {
      job.placed.push_back(job.session->plan()->place(x));
      const auto found = job.session->run({{"x", x}});
      const auto expected = ops::evaluate(e.graph, std::vector{x});
      job.answers.emplace_back();
      for (size_t o = 0; o < expected.size(); ++o) {
        job.answers.back().push_back(found.at(job.session->outputs()[o].name));
        expect_same(job.answers.back().back(), expected[o], e.tolerance);
      }
    }
    jobs.push_back(std::move(job));
  }

  std::atomic<int> wrong = 0;
  std::mutex failing;
  std::string failure;
  std::vector<std::vector<int64_t>> held;  // by phase, while no thread runs
  std::barrier quiet(threads, [&]() noexcept {
    held.emplace_back();
    for (const FlatMemory& m : memory) held.back().push_back(m.held());
  });
  const auto work = [&](int thread) {
    std::vector<std::unique_ptr<Execution>> own;
    for (const Job& job : jobs) own.push_back(job.session->plan()->execution());
    int number = 5 * thread;
    const auto once = [&] {
      const auto n = static_cast<size_t>(number++);
      constexpr size_t inputs = 3;  // of each of endured_plans()
      const size_t j = n % jobs.size(), i = n / jobs.size() % inputs, round = n / (jobs.size() * inputs);
      const bool placed = round % 2 != 0, shared = round / 2 % 2 != 0;
      Job& job = jobs[j];
      const Tensor& x = (placed ? job.placed : job.on_host)[i];
      std::vector<Tensor> found;
      if (shared) {
        const auto by_name = job.session->run({{"x", x}});
        for (const TensorInfo& o : job.session->outputs()) found.push_back(by_name.at(o.name));
      } else {
        own[j]->bind(std::vector{x});
        own[j]->run();
        found.assign(own[j]->outputs().begin(), own[j]->outputs().end());
      }
      wrong += found.size() != job.answers[i].size();
      for (size_t o = 0; o < std::min(found.size(), job.answers[i].size()); ++o) {
        const Tensor y = to_host(found[o]), &want = job.answers[i][o];
        wrong += y.shape() != want.shape() || std::memcmp(y.raw(), want.raw(), static_cast<size_t>(want.nbytes())) != 0;
      }
    };
    for (int phase = 0; phase <= phases; ++phase) {
      try {
        for (int i = 0; i < (phase == 0 ? first_runs : phase_runs); ++i) once();
      } catch (const std::exception& e) {
        std::lock_guard lock(failing);
        failure = e.what();
      }
      quiet.arrive_and_wait();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) workers.emplace_back(work, t);
  }
  EXPECT_EQ(failure, "");
  EXPECT_EQ(wrong, 0);
  for (size_t m = 0; m < memory.size(); ++m) {
    std::string all;
    for (const auto& phase : held) all += fmt::format(" {}", phase[m]);
    ::testing::Test::RecordProperty(memory[m].what, all);
    const int64_t last = held.back()[m], before = held[held.size() - 2][m];
    EXPECT_LE(last, held.front()[m] + memory[m].growth) << memory[m].what << ", bytes after each phase:" << all;
    EXPECT_LE(last, before + memory[m].at_last) << memory[m].what << ", bytes after each phase:" << all;
  }
}

}  // namespace smelt::run
